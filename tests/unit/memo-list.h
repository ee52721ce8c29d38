/* A store for kept results (struct ana_memo): a list in memory. It counts its hits, misses and puts, and a test may
 * damage its bytes. */
#ifndef DT_TESTS_UNIT_MEMO_LIST_H
#define DT_TESTS_UNIT_MEMO_LIST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/analysis.h"
#include "base/hash.h"

static struct kept {
    char key[DT_SHA256_TEXT];
    uint8_t *p;
    size_t n;
} kept[64];
static unsigned nkept, hits, misses, puts_;

static int get(void *user, const char *key, void **ret, size_t *ret_len)
{
    for (unsigned i = 0; i < nkept; i++)
        if (!strcmp(kept[i].key, key)) {
            hits++;
            *ret = malloc(kept[i].n + 1);
            memcpy(*ret, kept[i].p, kept[i].n);
            *ret_len = kept[i].n;
            return 1;
        }
    misses++;
    return 0;
}

static void put(void *user, const char *key, const void *p, size_t n)
{
    unsigned i = 0;
    puts_++;
    while (i < nkept && strcmp(kept[i].key, key))
        i++;
    assert_true(i < 64);
    nkept += i == nkept;
    free(kept[i].p);
    kept[i].p = malloc(n);
    kept[i].n = n;
    memcpy(kept[i].p, p, n);
    snprintf(kept[i].key, sizeof kept[i].key, "%s", key);
}

static const struct ana_memo memo_list = {get, put, NULL};

static void forget(void)
{
    for (unsigned i = 0; i < nkept; i++)
        free(kept[i].p), kept[i].p = NULL;
    nkept = 0;
}

#endif
