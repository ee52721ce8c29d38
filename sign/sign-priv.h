/* What the files of this room share: keys as they are in memory. */
#ifndef DT_SIGN_PRIV_H
#define DT_SIGN_PRIV_H

#include "sign/sign.h"

#define SIGN_SECRET 64
#define SIGN_PUBLIC 32
#define SIGN_SEAL_LENGTH 88 /* of base64 */

struct sign_key {
    char name[SIGN_NAME_MAX];
    unsigned char secret[SIGN_SECRET]; /* libsodium's: the seed and the public half */
};

struct sign_public {
    char name[SIGN_NAME_MAX];
    unsigned char key[SIGN_PUBLIC];
    int64_t from, until; /* seconds since 1970; from <= t < until */
    bool revoked;
};

struct sign_signers {
    struct sign_public *key;
    size_t n;
};

#endif
