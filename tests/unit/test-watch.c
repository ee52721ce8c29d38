/* What a worker takes, as the service counts it: a copy of the worker (base/aside.h) shares its memory with it, and is
 * not counted twice until it writes there. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/service/pool-priv.h"

#define MB (UINT64_C(1) << 20)
#define BYTES (256 * MB)

static unsigned char *memory;
static int ready[2], go[2];

static void tell(int fd) { assert_int_equal(write(fd, "x", 1), 1); }

static void hear(int fd)
{
    char c;
    assert_int_equal(read(fd, &c, 1), 1);
}

static void copy_of_worker(void)
{
    tell(ready[1]);
    hear(go[0]);
    memset(memory, 2, BYTES);
    tell(ready[1]);
    for (;;)
        pause();
}

static void test_copy(void **state)
{
    (void)state;
    assert_int_equal(pipe(ready) | pipe(go), 0);
    uint64_t before = worker_resident(getpid());
    assert_true(before > 0);
    memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    memset(memory, 1, BYTES);
    uint64_t alone = worker_resident(getpid());
    assert_true(alone - before > BYTES - 8 * MB);
    pid_t pid = fork();
    if (!pid)
        copy_of_worker();
    hear(ready[0]);
    uint64_t shared = worker_resident(getpid());
    assert_true(shared - alone < BYTES / 4);
    tell(go[1]);
    hear(ready[0]);
    assert_true(worker_resident(getpid()) - alone > BYTES - 8 * MB);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    munmap(memory, BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_copy)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
