/* From words of PTX text to rows of the .def tables.
 *
 * Three open-addressing tables (modifiers, types and spaces; mnemonics; special registers), filled once from the .def
 * files at the first look-up (pthread_once, so that many threads may parse). At most half full; keys are string
 * constants. A mnemonic of several words ("bar.warp.sync") is one key; its first word remembers how many words the
 * longest has, so that the parser tries the longest first. Synonyms that print as another spelling are listed here, in
 * aliases[].
 */
#include <pthread.h>
#include <string.h>

#include "ptx/ptx-priv.h"

#define SLOTS 1024

struct slot {
    const char *key;
    uint16_t len, value;
    uint8_t kind, longest;
};
static struct slot words[SLOTS], mnemonics[SLOTS], sregs[SLOTS];

static const struct {
    const char *text;
    uint8_t space;
} spaces[] = {
    {"global", PTX_GLOBAL},
    {"shared", PTX_SHARED},
    {"shared::cta", PTX_SHARED},
    {"shared::cluster", PTX_SHARED_CLUSTER},
    {"local", PTX_LOCAL},
    {"const", PTX_CONST},
    {"param", PTX_PARAM},
    {"param::entry", PTX_PARAM},
    {"param::func", PTX_PARAM_FUNC},
    {"reg", PTX_REG},
};
static const struct {
    const char *text;
    uint16_t op;
} aliases[] = {
    {"bar.cta.sync", PTX_OP_BAR_SYNC},
    {"bar.cta.arrive", PTX_OP_BAR_ARRIVE},
    {"bar.cta.red", PTX_OP_BAR_RED},
    {"barrier.cta.sync", PTX_OP_BARRIER_SYNC},
    {"barrier.cta.arrive", PTX_OP_BARRIER_ARRIVE},
    {"barrier.cta.red", PTX_OP_BARRIER_RED},
};

static uint32_t hash(const char *s, size_t n)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)s[i]) * 16777619u;
    return h ^ h >> 15;
}

static struct slot *probe(struct slot *t, const char *s, size_t n)
{
    for (uint32_t i = hash(s, n) & (SLOTS - 1);; i = (i + 1) & (SLOTS - 1))
        if (!t[i].key || (t[i].len == n && !memcmp(t[i].key, s, n)))
            return &t[i];
}

static struct slot *words_put(struct slot *t, const char *s, size_t n, uint8_t kind, unsigned value)
{
    struct slot *p = probe(t, s, n);
    if (!p->key)
        *p = (struct slot){.key = s, .len = (uint16_t)n, .kind = kind, .value = (uint16_t)value};
    return p;
}

static void put_mnemonic(const char *s, unsigned op)
{
    struct slot *p = words_put(mnemonics, s, strlen(s), 1, op);
    p->kind = 1; /* it may be there already as the first word of a longer one */
    p->value = (uint16_t)op;
    uint8_t n = 1;
    for (const char *c = s; *c; c++)
        n += *c == '.';
    struct slot *first = words_put(mnemonics, s, strcspn(s, "."), 0, PTX_OP_COUNT);
    if (first->longest < n)
        first->longest = n;
}

static void words_fill(void)
{
    for (unsigned m = 1; m < PTX_M_COUNT; m++)
        words_put(words, ptx_mod_text(m), strlen(ptx_mod_text(m)), PTX_W_MOD, m);
    for (unsigned t = 1; t < PTX_T_COUNT; t++)
        words_put(words, ptx_type_text(t), strlen(ptx_type_text(t)), PTX_W_TYPE, t);
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
        words_put(words, spaces[i].text, strlen(spaces[i].text), PTX_W_SPACE, spaces[i].space);
    for (unsigned o = PTX_OP_OPAQUE + 1; o < PTX_OP_COUNT; o++)
        put_mnemonic(ptx_op_info(o)->mnemonic, o);
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        put_mnemonic(aliases[i].text, aliases[i].op);
    for (unsigned r = 1; r < PTX_SR_COUNT; r++)
        words_put(sregs, ptx_sreg_text(r), strlen(ptx_sreg_text(r)), 1, r);
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

struct ptx_word ptx_word_find(const char *s, size_t len)
{
    pthread_once(&once, words_fill);
    struct slot *p = probe(words, s, len);
    return p->key ? (struct ptx_word){p->kind, p->value} : (struct ptx_word){PTX_W_NONE, 0};
}

enum ptx_op ptx_mnemonic_find(const char *s, size_t len, unsigned *ret_longest)
{
    pthread_once(&once, words_fill);
    struct slot *p = probe(mnemonics, s, len);
    *ret_longest = p->key ? p->longest : 0;
    return p->key && p->kind ? p->value : PTX_OP_COUNT;
}

enum ptx_sreg ptx_sreg_find(const char *s, size_t len)
{
    pthread_once(&once, words_fill);
    struct slot *p = probe(sregs, s, len);
    return p->key ? p->value : PTX_SR_NONE;
}

const char *ptx_space_text(unsigned space)
{
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
        if (spaces[i].space == space)
            return spaces[i].text;
    return "";
}
