/* Stable sorting by a 64-bit key, in time linear in the number of elements.
 *
 *     DT_RADIX(by_address, struct event, x->at)      defines  static bool by_address(struct event *v, size_t n);
 *
 * sorts v[0..n) by `x->at`, ascending; elements with equal keys stay in their order. False: no memory for a copy of the
 * array, and v is as it was. Least significant digit first, eight bits a pass, and only over digits in which keys
 * differ: a buffer of a megabyte, cut at multiples of 128 bytes, takes two passes. What is sorted already is left
 * alone.
 */
#ifndef DT_BASE_RADIX_H
#define DT_BASE_RADIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define DT_RADIX(name, type, key)                                                                                      \
    static inline uint64_t name##_key_(const type *x) { return (key); }                                                \
    static bool name(type *v, size_t n)                                                                                \
    {                                                                                                                  \
        uint64_t differ = 0, before = 0;                                                                               \
        bool sorted = true;                                                                                            \
        for (size_t i = 0; i < n; i++) {                                                                               \
            uint64_t k = name##_key_(&v[i]);                                                                           \
            differ |= i ? k ^ before : 0;                                                                              \
            sorted &= before <= k;                                                                                     \
            before = k;                                                                                                \
        }                                                                                                              \
        if (sorted)                                                                                                    \
            return true;                                                                                               \
        if (n <= 24) { /* by insertion */                                                                              \
            for (size_t i = 1; i < n; i++) {                                                                           \
                type x = v[i];                                                                                         \
                uint64_t k = name##_key_(&x);                                                                          \
                size_t j = i;                                                                                          \
                for (; j && name##_key_(&v[j - 1]) > k; j--)                                                           \
                    v[j] = v[j - 1];                                                                                   \
                v[j] = x;                                                                                              \
            }                                                                                                          \
            return true;                                                                                               \
        }                                                                                                              \
        type *other = dt_reallocarray(NULL, n, sizeof *other), *from = v, *to = other;                                 \
        if (!other)                                                                                                    \
            return false;                                                                                              \
        while (differ) {                                                                                               \
            unsigned shift = (unsigned)__builtin_ctzll(differ);                                                        \
            size_t at[257] = {0};                                                                                      \
            for (size_t i = 0; i < n; i++)                                                                             \
                at[(name##_key_(&from[i]) >> shift & 255) + 1]++;                                                      \
            for (unsigned d = 0; d < 256; d++)                                                                         \
                at[d + 1] += at[d];                                                                                    \
            for (size_t i = 0; i < n; i++)                                                                             \
                to[at[name##_key_(&from[i]) >> shift & 255]++] = from[i];                                              \
            type *x = from;                                                                                            \
            from = to;                                                                                                 \
            to = x;                                                                                                    \
            differ = shift < 56 ? differ & ~((UINT64_C(256) << shift) - 1) : 0;                                        \
        }                                                                                                              \
        if (from != v)                                                                                                 \
            memcpy(v, from, n * sizeof *v);                                                                            \
        free(other);                                                                                                   \
        return true;                                                                                                   \
    }

#endif
