/* Writes traces for the benchmarks: Chrome JSON as PyTorch's Kineto, TensorFlow's timeline or Chrome itself writes it. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEP_OPS = 400, PID = 4211, TID = 4211, STREAM = 7 };

static uint64_t state;

static uint64_t next_random(void)
{
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static unsigned below(unsigned n)
{
    return (unsigned)(next_random() % n);
}

static uint64_t written, wanted;
static int64_t now_ns = 1383211800000; /* since the file's base */

/* False when there are enough events. */
static bool event_start(const char *separator)
{
    if (written == wanted)
        return false;
    if (written++)
        fputs(separator, stdout);
    return true;
}

static void put_times(int64_t ts, int64_t dur)
{
    printf("\"ts\": %" PRId64 ".%03d, \"dur\": %" PRId64 ".%03d", ts / 1000, (int)(ts % 1000), dur / 1000,
           (int)(dur % 1000));
}

static const char *const ops[] = {
    "aten::conv2d",
    "aten::convolution",
    "aten::_convolution",
    "aten::cudnn_convolution",
    "aten::batch_norm",
    "aten::add_",
    "aten::relu_",
    "aten::linear",
    "aten::addmm",
    "aten::empty_strided",
    "aten::copy_",
    "aten::max_pool2d",
    "aten::mean",
    "aten::log_softmax",
    "autograd::engine::evaluate_function: ConvolutionBackward0",
    "Optimizer.step#SGD.step",
};
static const char *const functions[] = {
    "torch/nn/modules/module.py(1501): _call_impl",
    "torchvision/models/resnet.py(143): forward",
    "torch/nn/modules/conv.py(463): forward",
    "torch/nn/modules/batchnorm.py(138): forward",
    "<built-in method conv2d of type object at 0x7f1c5d0d5aa0>",
    "torch/utils/data/dataloader.py(633): __next__",
    "nn.Module: BatchNorm2d_31",
    "torch/optim/sgd.py(66): step",
};
static const char *const kernels[] = {
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3> >"
    "(int, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3>)",
    "sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16_stage4_warpsize2x2x1_g1"
    "_tensor16x8x8_execute_kernel__5x_cudnn",
    "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>(cudnnTensorStruct, float const*)",
    "ampere_sgemm_128x64_nn",
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)",
};

static void kineto_op(const char *name, int64_t ts, int64_t dur, uint64_t id)
{
    const unsigned n = 8u << below(5), c = 3u << below(5), h = 7u << below(4);
    if (!event_start(",\n"))
        return;
    printf("  {\n    \"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"%s\", \"pid\": %d, \"tid\": %d,\n    ", name, PID,
           TID);
    put_times(ts, dur);
    printf(",\n    \"args\": {\n      \"External id\": %" PRIu64 ",\"Sequence number\": %" PRIu64
           ", \"Fwd thread id\": 0, \"Record function id\": 0, \"Concrete Inputs\": [\"\", \"\", \"\", \"[%u, %u]\", "
           "\"[1, 1]\", \"[1, 1]\", \"False\", \"[0, 0]\", \"1\"], \"Input type\": [\"float\", \"float\", \"\", "
           "\"ScalarList\", \"ScalarList\", \"ScalarList\", \"Scalar\", \"ScalarList\", \"Scalar\"], ",
           id, id / 2, 1 + below(2), 1 + below(2));
    printf("\"Input Strides\": [[%u, %u, %u, 1], [%u, 9, 3, 1], [], [], [], [], [], [], []], \"Input Dims\": [[%u, %u, "
           "%u, %u], [%u, %u, 3, 3], [], [], [], [], [], [], []], \"Ev Idx\": %" PRIu64 "\n    }\n  }",
           c * h * h, h * h, h, c * 9, n, c, h, h, c * 2, c, written);
}

static void kineto_python(int64_t ts, int64_t dur, uint64_t id)
{
    if (!event_start(",\n"))
        return;
    printf("  {\n    \"ph\": \"X\", \"cat\": \"python_function\", \"name\": \"%s\", \"pid\": %d, \"tid\": %d,\n    ",
           functions[below(sizeof functions / sizeof functions[0])], PID, TID);
    put_times(ts, dur);
    printf(",\n    \"args\": {\n      \"Python parent id\": %" PRIu64 ",\"Python id\": %" PRIu64
           ",\"Python thread\": 0,\"Ev Idx\": %" PRIu64 "\n    }\n  }",
           id / 3, id, written);
}

static void kineto_launch(int64_t ts, int64_t dur, uint64_t id)
{
    if (!event_start(",\n"))
        return;
    printf(
        "  {\n    \"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", \"pid\": %d, \"tid\": %d,\n    ",
        PID, TID);
    put_times(ts, dur);
    printf(",\n    \"args\": {\n      \"External id\": %" PRIu64 ", \"cbid\": 211, \"correlation\": %" PRIu64
           "\n    }\n  }",
           id, id + 1000);
}

static void kineto_flow(char phase, int pid, int tid, int64_t ts, uint64_t id)
{
    if (!event_start(",\n"))
        return;
    printf("  {\n    \"ph\": \"%c\", \"id\": %" PRIu64 ", \"pid\": %d, \"tid\": %d, \"ts\": %" PRId64
           ".%03d,\n    \"cat\": \"ac2g\", \"name\": \"ac2g\"%s\n  }",
           phase, id + 1000, pid, tid, ts / 1000, (int)(ts % 1000), phase == 'f' ? ", \"bp\": \"e\"" : "");
}

static void kineto_kernel(int64_t ts, int64_t dur, uint64_t id)
{
    if (!event_start(",\n"))
        return;
    printf("  {\n    \"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"%s\", \"pid\": 0, \"tid\": %d,\n    ",
           kernels[below(sizeof kernels / sizeof kernels[0])], STREAM);
    put_times(ts, dur);
    printf(
        ",\n    \"args\": {\n      \"External id\": %" PRIu64
        ",\n      \"queued\": 0, \"device\": 0, \"context\": 1,\n      "
        "\"stream\": %d, \"correlation\": %" PRIu64
        ",\n      \"registers per thread\": %u,\n      \"shared memory\": %u,\n      "
        "\"blocks per SM\": %u.%06u,\n      \"warps per SM\": %u.%06u,\n      \"grid\": [%u, %u, 1],\n      \"block\": [%u, "
        "1, 1],\n      \"est. achieved occupancy %%\": %u\n    }\n  }",
        id, STREAM, id + 1000, 16 + 8 * below(20), below(4) * 16384, below(20), below(1000000), below(64),
        below(1000000), 1 + below(400), 1 + below(16), 32u << below(5), below(101));
}

/* One op: Python calls it, it calls another one, that launches a kernel which runs later on the stream. */
static void kineto_group(uint64_t id)
{
    const int64_t dur = 20000 + below(180000), start = now_ns, device = start + dur + 50000;
    const unsigned op = below(sizeof ops / sizeof ops[0]);
    kineto_python(start, dur, id);
    kineto_op(ops[op], start + 1500, dur - 3000, id);
    kineto_op(ops[(op + 1) % (sizeof ops / sizeof ops[0])], start + 3000, dur - 6000, id);
    kineto_op(ops[(op + 2) % (sizeof ops / sizeof ops[0])], start + 4500, dur - 9000, id);
    kineto_op("aten::empty_strided", start + 6000, 2500, id);
    kineto_launch(start + dur / 2, 4000 + below(3000), id);
    kineto_flow('s', PID, TID, start + dur / 2, id);
    kineto_kernel(device, dur - 2000, id);
    kineto_flow('f', 0, STREAM, device, id);
    now_ns += dur + 500 + below(4000);
}

static void kineto_step(int64_t start, int64_t dur, uint64_t step)
{
    if (!event_start(",\n"))
        return;
    printf("  {\n    \"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": \"ProfilerStep#%" PRIu64
           "\", \"pid\": %d, \"tid\": %d,\n    ",
           step, PID, TID);
    put_times(start, dur);
    printf(",\n    \"args\": {\n      \"External id\": %" PRIu64 ",\"Ev Idx\": %" PRIu64 "\n    }\n  }", step, written);
}

static void write_kineto(void)
{
    printf(
        "{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [\n    {\n      \"id\": 0, \"name\": \"NVIDIA A100-SXM4-80GB\", "
        "\"totalGlobalMem\": 85031714816\n    }\n  ],\n  \"distributedInfo\": {\"backend\": \"nccl\", \"rank\": 0, "
        "\"world_size\": 8},\n  \"displayTimeUnit\": \"ms\",\n  \"baseTimeNanoseconds\": 1711929600000000000,\n  "
        "\"traceEvents\": [\n");
    event_start("");
    printf("  {\n    \"name\": \"process_name\", \"ph\": \"M\", \"ts\": %" PRId64
           ".000, \"pid\": %d, \"tid\": 0,\n    \"args\": {\n      \"name\": \"python\"\n    }\n  }",
           now_ns / 1000, PID);
    for (uint64_t step = 0, id = 1; written < wanted; step++) {
        const int64_t start = now_ns;
        for (int i = 0; i < STEP_OPS && written < wanted; i++)
            kineto_group(id++);
        kineto_step(start, now_ns - start, step);
        now_ns += 20000;
    }
    printf("\n  ],\n  \"traceName\": \"./resnet50.pt.trace.json\"\n}\n");
}

/* TensorFlow's timeline: one line, few args. */
static void write_tf(void)
{
    static const char *const names[] = {"MatMul",  "Conv2D", "FusedBatchNormV3", "IteratorGetNext", "Relu",
                                        "BiasAdd", "AddV2"};
    printf("{\"traceEvents\": [");
    while (event_start(", ")) {
        const char *name = names[below(sizeof names / sizeof names[0])];
        const unsigned dur = 5 + below(400);
        printf(
            "{\"ph\": \"X\", \"cat\": \"Op\", \"name\": \"%s\", \"pid\": %u, \"tid\": %u, \"ts\": %" PRId64
            ", \"dur\": %u, \"args\": {\"name\": \"model/layer_%u/%s\", \"op\": \"%s\", \"input0\": \"model/layer_%u/Relu\"}}",
            name, 1 + below(3) * 2, below(8), now_ns / 1000, dur, below(60), name, name, below(60));
        now_ns += 30000 + below(50000);
    }
    printf("]}\n");
}

/* Chrome itself: begins, ends, complete and async events, counters, thread times. */
static void write_chrome(void)
{
    printf("{\"traceEvents\":[");
    while (event_start(",\n")) {
        const unsigned kind = below(10), tid = 1 + below(12);
        printf("{\"pid\":%u,\"tid\":%u,\"ts\":%" PRId64 ",", 100 + below(4), tid, now_ns / 1000);
        if (kind < 6)
            printf(
                "\"ph\":\"X\",\"cat\":\"toplevel\",\"name\":\"ThreadControllerImpl::RunTask\",\"args\":{\"src_file\":"
                "\"../../cc/scheduler/scheduler.cc\",\"src_func\":\"ScheduleBeginImplFrameDeadline\"},\"dur\":%u,\"tdur\":%u,"
                "\"tts\":%" PRId64 "}",
                below(300), below(200), now_ns / 3000);
        else if (kind < 8)
            printf(
                "\"ph\":\"%c\",\"cat\":\"cc,benchmark\",\"name\":\"PipelineReporter\",\"id2\":{\"local\":\"0x%x\"},\"args\":{"
                "\"data\":{\"frame\":%u,\"state\":\"STATE_%u\"}}}",
                kind == 6 ? 'b' : 'e', below(64), below(100000), below(5));
        else if (kind == 8)
            printf("\"ph\":\"C\",\"cat\":\"v8\",\"name\":\"heap\",\"args\":{\"used\":%u,\"total\":%u}}",
                   below(1u << 30), 1u << 30);
        else
            printf(
                "\"ph\":\"I\",\"cat\":\"input\",\"name\":\"LatencyInfo.Flow\",\"s\":\"t\",\"args\":{\"trace_id\":%u}}",
                below(1u << 20));
        now_ns += 1000 + below(20000);
    }
    printf("],\n\"metadata\":{\"clock-domain\":\"LINUX_CLOCK_MONOTONIC\",\"num-cpus\":16}}\n");
}

static int usage(void)
{
    fputs("usage: make_trace --events N [--style kineto|tf|chrome] [--seed N] > FILE\n", stderr);
    return 2;
}

int main(int argc, char **argv)
{
    const char *style = "kineto";
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--events") == 0)
            wanted = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--style") == 0)
            style = argv[i + 1];
        else if (strcmp(argv[i], "--seed") == 0)
            state = strtoull(argv[i + 1], NULL, 10);
        else
            return usage();
    }
    if (!wanted || argc % 2 == 0)
        return usage();
    if (strcmp(style, "kineto") == 0)
        write_kineto();
    else if (strcmp(style, "tf") == 0)
        write_tf();
    else if (strcmp(style, "chrome") == 0)
        write_chrome();
    else
        return usage();
    return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}
