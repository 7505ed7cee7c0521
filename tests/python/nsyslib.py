"""Databases as `nsys export --type sqlite` writes them: tables in the shape of real exports, of an old and a new version."""
import os
import sqlite3

PID, MAIN, LOADER = 4242, 4242, 4250
HARDWARE = 1 << 48
DEVICE = "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, "
WORK = "streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, "
SIZES = ("registersPerThread INTEGER NOT NULL, gridX INTEGER NOT NULL, gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL, "
         "blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL, staticSharedMemory INTEGER NOT NULL, "
         "dynamicSharedMemory INTEGER NOT NULL, localMemoryPerThread INTEGER NOT NULL, localMemoryTotal INTEGER NOT NULL, "
         "gridId INTEGER NOT NULL, sharedMemoryExecuted INTEGER, graphNodeId INTEGER, sharedMemoryLimitConfig INTEGER")
COPY = ("bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL, deprecatedSrcId INTEGER, srcKind INTEGER, dstKind INTEGER, "
        "srcDeviceId INTEGER, srcContextId INTEGER, dstDeviceId INTEGER, dstContextId INTEGER, migrationCause INTEGER, "
        "graphNodeId INTEGER")
CALL = ("start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER, "
        "correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER")
TABLES = {
    "StringIds": "id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL",
    "CUPTI_ACTIVITY_KIND_RUNTIME": CALL,
    "OSRT_API": "start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER, "
                "nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, nestingLevel INTEGER, callchainId INTEGER NOT NULL",
    "ThreadNames": "nameId INTEGER NOT NULL, priority INTEGER, globalTid INTEGER",
    "SCHED_EVENTS": "start INTEGER NOT NULL, cpu INTEGER NOT NULL, isSchedIn INTEGER NOT NULL, globalTid INTEGER",
    "COMPOSITE_EVENTS": "id INTEGER NOT NULL PRIMARY KEY, start INTEGER NOT NULL, cpu INTEGER, threadState INTEGER, "
                        "globalTid INTEGER, cpuCycles INTEGER NOT NULL",
    "SAMPLING_CALLCHAINS": "id INTEGER NOT NULL, symbol INTEGER NOT NULL, module INTEGER NOT NULL, kernelMode INTEGER, "
                           "thumbCode INTEGER, unresolved INTEGER, specialEntry INTEGER, originalIP INTEGER, "
                           "unwindMethod INTEGER, stackDepth INTEGER NOT NULL, PRIMARY KEY (id, stackDepth)",
    "TARGET_INFO_GPU": "vmId INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT, busLocation TEXT, isDiscrete INTEGER, "
                       "l2CacheSize INTEGER, totalMemory INTEGER, memoryBandwidth INTEGER, clockRate INTEGER, smCount INTEGER",
}
# 2021: no processes, no clock, one name of a kernel less, NVTX texts as such
OLD = {
    "CUPTI_ACTIVITY_KIND_KERNEL": DEVICE + WORK + "demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, "
                                  "launchType INTEGER, cacheConfig INTEGER, " + SIZES,
    "CUPTI_ACTIVITY_KIND_MEMCPY": DEVICE + WORK + COPY,
    "NVTX_EVENTS": "start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, category INTEGER, "
                   "color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER",
}
# 2025
NEW = {
    "CUPTI_ACTIVITY_KIND_KERNEL": DEVICE + "greenContextId INTEGER, " + WORK + "demangledName INTEGER NOT NULL, shortName "
                                  "INTEGER NOT NULL, mangledName INTEGER, launchType INTEGER, cacheConfig INTEGER, " + SIZES +
                                  ", qmdBulkReleaseDone INTEGER, graphId INTEGER, clusterX INTEGER",
    "CUPTI_ACTIVITY_KIND_MEMCPY": DEVICE + "greenContextId INTEGER, " + WORK + COPY + ", virtualAddress INTEGER, "
                                  "copyCount INTEGER",
    "CUPTI_ACTIVITY_KIND_MEMSET": DEVICE + WORK + "value INTEGER NOT NULL, bytes INTEGER NOT NULL, graphNodeId INTEGER, "
                                  "memKind INTEGER",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": DEVICE + WORK + "deprecatedSyncType INTEGER, syncType INTEGER NOT NULL, "
                                           "eventId INTEGER NOT NULL, eventSyncId INTEGER",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": DEVICE + WORK + "graphId INTEGER NOT NULL, graphExecId INTEGER NOT NULL",
    "NVTX_EVENTS": OLD["NVTX_EVENTS"] + ", uint64Value INTEGER, int64Value INTEGER, doubleValue REAL, uint32Value INTEGER, "
                   "int32Value INTEGER, floatValue REAL, jsonTextId INTEGER, jsonText TEXT, binaryData TEXT",
    "PROCESSES": "globalPid INTEGER, pid INTEGER, name TEXT",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs INTEGER, utcTime TEXT, localTime TEXT",
    "TARGET_INFO_SYSTEM_ENV": "globalVid INTEGER, devStateName TEXT NOT NULL, name TEXT NOT NULL, nameEnum INTEGER NOT NULL, "
                              "value TEXT NOT NULL",
    "TARGET_INFO_CUDA_DEVICE": "gpuId INTEGER, cudaId INTEGER NOT NULL, pid INTEGER NOT NULL, uuid TEXT",
    "META_DATA_EXPORT": "name TEXT NOT NULL, value TEXT",
    "META_DATA_CAPTURE": "name TEXT NOT NULL, value TEXT",
    "DIAGNOSTIC_EVENT": "timestamp INTEGER NOT NULL, timestampType INTEGER NOT NULL, source INTEGER NOT NULL, "
                        "severity INTEGER NOT NULL, text TEXT NOT NULL, globalPid INTEGER",
    "GPU_METRICS": "timestamp INTEGER, typeId INTEGER NOT NULL, metricId INTEGER NOT NULL, value INTEGER NOT NULL",
    "TARGET_INFO_GPU_METRICS": "typeId INTEGER NOT NULL, sourceId INTEGER NOT NULL, typeName TEXT NOT NULL, metricId INTEGER "
                               "NOT NULL, metricName TEXT NOT NULL",
}


def global_pid(pid=PID):
    return HARDWARE | pid << 24


def global_tid(tid=MAIN, pid=PID):
    return HARDWARE | pid << 24 | tid


class Export:
    """One database. Rows are given by column; what a version does not have is left out."""

    def __init__(self, path, new=True):
        if os.path.exists(path):
            os.remove(path)
        self.path, self.db, self.strings, self.correlation = path, sqlite3.connect(path), {}, 0
        self.columns = {}
        for name, columns in {**TABLES, **(NEW if new else OLD)}.items():
            self.db.execute(f"CREATE TABLE {name} ({columns})")
            self.columns[name] = {row[1]: row[3] for row in self.db.execute(f"PRAGMA table_info({name})")}

    def string(self, text):
        if text not in self.strings:
            self.strings[text] = len(self.strings) + 5
            self.row("StringIds", id=self.strings[text], value=text)
        return self.strings[text]

    def row(self, table, **values):
        columns = self.columns.get(table, {})
        full = {name: 0 for name, not_null in columns.items() if not_null}
        full.update({name: value for name, value in values.items() if name in columns})
        if columns:
            self.db.execute(f"INSERT INTO {table} ({', '.join(full)}) VALUES ({', '.join('?' * len(full))})",
                            list(full.values()))

    def call(self, start, end, name, tid=MAIN, pid=PID, correlation=None, driver=False):
        self.row("CUPTI_ACTIVITY_KIND_RUNTIME", start=start, end=end, eventClass=int(driver), nameId=self.string(name),
                 globalTid=global_tid(tid, pid), correlationId=correlation)

    def kernel(self, start, end, name, launch=None, pid=PID, stream=7, device=0, correlation=None):
        if correlation is None:
            self.correlation += 1
            correlation = self.correlation
            if launch is not None:
                self.call(launch, launch + 5000, "cudaLaunchKernel_v7000", pid=pid, correlation=correlation)
        self.row("CUPTI_ACTIVITY_KIND_KERNEL", start=start, end=end, deviceId=device, contextId=1, streamId=stream,
                 correlationId=correlation, globalPid=global_pid(pid), demangledName=self.string(name),
                 shortName=self.string(name.split("<")[0].split("(")[0]), registersPerThread=32, gridX=16, gridY=2, gridZ=1,
                 blockX=256, blockY=1, blockZ=1, staticSharedMemory=1024, dynamicSharedMemory=24)
        return correlation

    def copy(self, start, end, kind=1, size=1 << 20, launch=None, pid=PID):
        self.correlation += 1
        if launch is not None:
            self.call(launch, launch + 5000, "cudaMemcpyAsync_v3020", pid=pid, correlation=self.correlation)
        self.row("CUPTI_ACTIVITY_KIND_MEMCPY", start=start, end=end, deviceId=0, contextId=1, streamId=7, bytes=size,
                 correlationId=self.correlation, globalPid=global_pid(pid), copyKind=kind, srcKind=1, dstKind=2)

    def range(self, start, end, text, tid=MAIN, pid=PID, kind=59, registered=False, domain=0, **more):
        name = {"textId": self.string(text)} if registered else {"text": text}
        self.row("NVTX_EVENTS", start=start, end=end, eventType=kind, globalTid=global_tid(tid, pid), domainId=domain, **name,
                 **more)

    def os_call(self, start, end, name, tid=MAIN, pid=PID):
        self.row("OSRT_API", start=start, end=end, eventClass=27, nameId=self.string(name), globalTid=global_tid(tid, pid))

    def names(self, pid=PID):
        self.row("ThreadNames", nameId=self.string("pt_main_thread"), globalTid=global_tid(pid, pid))
        self.row("PROCESSES", globalPid=global_pid(pid), pid=pid, name="python3")
        self.row("PROCESSES", globalPid=global_pid(1), pid=1, name="systemd")
        self.row("TARGET_INFO_GPU", id=0, name="NVIDIA H200", smCount=132, totalMemory=150 << 30)
        self.row("TARGET_INFO_CUDA_DEVICE", gpuId=0, cudaId=0, pid=pid)
        self.row("TARGET_INFO_SESSION_START_TIME", utcEpochNs=1753636200399193063)
        self.row("TARGET_INFO_SYSTEM_ENV", devStateName="Local (CLI)", name="Hostname", nameEnum=619, value="node7")
        self.row("META_DATA_EXPORT", name="EXPORT_PRODUCT_VERSION", value="2025.3.1.0")
        self.row("META_DATA_CAPTURE", name="PROCESS_0:ENVIRONMENT_VARIABLE", value='TOKEN="secret"')

    def close(self):
        self.db.commit()
        self.db.close()
        return self.path


def training(path, new=True, wait="nvtx", share=0.6, steps=40, marker="step {}", step_ns=10_000_000, start=1_000_000_000,
             background=True, registered=False):
    """
    A loop of which `share` waits for data: seen as an NVTX range "data" (nvtx), or only as kernels that are missing while
    the main thread sits in sem_wait (osrt). Beside it a thread that polls all the time, as CUDA's does.
    """
    e = Export(path, new)
    e.names()
    for i in range(steps):
        begin = start + i * step_ns
        waits = int(step_ns * share)
        work = begin + waits
        if marker:
            e.range(begin, begin + step_ns - 1000, marker.format(i), registered=registered)
        if wait == "nvtx":
            e.range(begin + 1000, work, "data", registered=registered)
        e.os_call(begin + 2000, work - 2000, "sem_wait")
        e.copy(work + 20_000, work + 60_000, launch=work + 5_000)
        busy = (step_ns - waits - 200_000) // 4
        for k in range(4):
            at = work + 70_000 + k * busy
            e.kernel(at, at + busy - 1000, f"void at::native::kernel_{k}<float, 4>(float*)", launch=work + 15_000 + k * 6_000)
        e.call(work + 50_000, begin + step_ns - 2000, "cudaDeviceSynchronize_v3020")
    if background:
        for at in range(start, start + steps * step_ns, 5_000_000):
            e.os_call(at, at + 4_990_000, "poll", tid=LOADER)
    return e.close()
