/* What files are known by: contents by their edges, and the times of their last change. */
#ifndef STK_FORMATS_FILE_LOOK_H
#define STK_FORMATS_FILE_LOOK_H

#include <stdint.h>
#include <sys/stat.h>

/* The first and last so many bytes of a file stand for its contents. */
enum { STK__LOOK_EDGE = 4096 };

/* A hash of the size and the edges of an open file; files of up to two edges are read whole. */
uint64_t stk__look_edges(int fd, int64_t size_bytes);

/* `h` with name (without directories), size and edges mixed in. Pipes, devices and "-" count by their names: a look would take
   bytes away from who reads them. */
uint64_t stk__look_contents(uint64_t h, const char *path);

/* `h` with size, mtime and ctime mixed in. *newest_ns is raised to the later one of the times. */
uint64_t stk__look_times(uint64_t h, const struct stat *st, int64_t *newest_ns);
/* The same by path; what is no regular file changes nothing. */
uint64_t stk__look_stamp(uint64_t h, const char *path, int64_t *newest_ns);

#endif
