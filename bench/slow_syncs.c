/* Counts the syncs of a process in a file of one number (SYNCS), and makes each take SYNC_MS longer. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static long *count;
static long milliseconds;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("SYNCS"), *slower = getenv("SYNC_MS");
    int file = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (file >= 0 && ftruncate(file, sizeof *count) == 0) {
        void *there = mmap(NULL, sizeof *count, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        count = there == MAP_FAILED ? NULL : there;
    }
    milliseconds = slower ? atol(slower) : 0;
}

static int synced(const char *name, int file) {
    int (*sync)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    struct timespec wait = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    if (count) __atomic_add_fetch(count, 1, __ATOMIC_RELAXED);
    if (milliseconds) nanosleep(&wait, NULL);
    return sync(file);
}

int fsync(int file) { return synced("fsync", file); }
int fdatasync(int file) { return synced("fdatasync", file); }
