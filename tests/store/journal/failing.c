/* Preloaded: the n-th write or sync of a journal's file, and every later one, fails. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static char what[8];
static int rest, error;

void fail_from(const char *kind, int after, int with) {
    strncpy(what, kind, sizeof what - 1);
    rest = after;
    error = with;
}

static int fails(const char *kind, int fd) {
    char link[64], name[4096];
    ssize_t size;
    if (strcmp(kind, what)) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    size = readlink(link, name, sizeof name - 1);
    if (size < 0) return 0;
    name[size] = 0;
    if (!strstr(name, "/journal-")) return 0;
    if (rest-- > 0) return 0;
    errno = error;
    return 1;
}

#define REAL(type, name) ((type)dlsym(RTLD_NEXT, name))

int fsync(int fd) {
    return fails("sync", fd) ? -1 : REAL(int (*)(int), "fsync")(fd);
}
int fdatasync(int fd) {
    return fails("sync", fd) ? -1 : REAL(int (*)(int), "fdatasync")(fd);
}
ssize_t write(int fd, const void *from, size_t size) {
    if (fails("write", fd)) return -1;
    return REAL(ssize_t (*)(int, const void *, size_t), "write")(fd, from, size);
}
ssize_t pwrite(int fd, const void *from, size_t size, off_t at) {
    if (fails("write", fd)) return -1;
    return REAL(ssize_t (*)(int, const void *, size_t, off_t), "pwrite")(fd, from, size, at);
}
ssize_t pwrite64(int fd, const void *from, size_t size, off64_t at) {
    if (fails("write", fd)) return -1;
    return REAL(ssize_t (*)(int, const void *, size_t, off64_t), "pwrite64")(fd, from, size, at);
}
