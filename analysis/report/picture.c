/* Block maps as pictures: a small grey PNG of each relation, for reports and notebooks.
 *
 * Producer blocks go down, consumer blocks across. At most MOST pixels a side: a pixel stands for `step` by `step'`
 * neighbouring blocks, ceil(blocks / MOST) of them, and is the darker the more of these pairs there are. A single pair
 * is seen (LEAST). Black is all of them, white none. A relation that is not kept (ANA_MAX_PAIRS) has a picture only
 * where it is everything with everything.
 *
 * Format: PNG (RFC 2083), 8 bits of grey, no filter, deflate by zlib. The text is base64. Equal pictures share one:
 * the document has a list `pictures`, and each edge the number of its own (`picture`).
 */
#include "analysis/report/picture.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/base64.h"

#define MOST 192
#define LEAST 96 /* darkness of the least that is there, of 255 */

static void put32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (24 - 8 * i));
}

static void chunk(struct dt_str *o, const char *type, const uint8_t *data, uint32_t n)
{
    uint8_t word[4];
    uLong crc = crc32(crc32(0, (const Bytef *)type, 4), data, n);
    put32(word, n);
    dt_str_addn(o, word, 4);
    dt_str_addn(o, type, 4);
    dt_str_addn(o, data, n);
    put32(word, (uint32_t)crc);
    dt_str_addn(o, word, 4);
}

/* cell: rows of 1 + w bytes, the first of each 0 (no filter). */
static void png(struct dt_str *o, const uint8_t *cell, uint32_t w, uint32_t h)
{
    uint8_t head[13] = {0};
    uLong len = (uLong)(w + 1) * h, room = compressBound(len);
    dt_free_ uint8_t *packed = dt_calloc(room, 1);
    if (!packed || compress2(packed, &room, cell, len, 9) != Z_OK) {
        o->failed = true;
        return;
    }
    put32(head, w);
    put32(head + 4, h);
    head[8] = 8; /* bits; colour type 0: grey */
    dt_str_addn(o, "\x89PNG\r\n\x1a\n", 8);
    chunk(o, "IHDR", head, sizeof head);
    chunk(o, "IDAT", packed, (uint32_t)room);
    chunk(o, "IEND", head, 0);
}

static uint32_t picture_step(uint32_t blocks) { return (blocks + MOST - 1) / MOST; }

static bool drawable(const struct ana_rows *r, uint64_t all) { return ana_rows_kept(r) || r->npairs == all; }

/* Pairs by pixel. */
static void picture_count(const struct ana_rows *r, uint32_t producers, uint32_t consumers, uint32_t *pixel, uint32_t w)
{
    uint32_t down = picture_step(producers), across = picture_step(consumers);
    for (uint32_t c = 0; r->row && c < r->nrow && c < consumers; c++)
        for (uint32_t k = r->row[c]; k < r->row[c + 1]; k++)
            if (r->col[k] < producers)
                pixel[(size_t)(r->col[k] / down) * w + c / across]++;
}

/* How many of `blocks` the pixel at i stands for. */
static uint32_t covers(uint32_t i, uint32_t step, uint32_t blocks)
{
    return blocks - i * step < step ? blocks - i * step : step;
}

static char *picture_draw(const struct ana_rows *r, uint32_t producers, uint32_t consumers)
{
    uint32_t down = picture_step(producers), across = picture_step(consumers), h = (producers + down - 1) / down,
             w = (consumers + across - 1) / across;
    dt_free_ uint32_t *pixel = dt_calloc((size_t)w * h, sizeof *pixel);
    dt_free_ uint8_t *cell = dt_calloc((size_t)(w + 1) * h, 1);
    if (!pixel || !cell)
        return NULL;
    picture_count(r, producers, consumers, pixel, w);
    for (uint32_t y = 0; y < h; y++)
        for (uint32_t x = 0; x < w; x++) {
            double of = (double)covers(y, down, producers) * covers(x, across, consumers);
            double part = r->row ? pixel[(size_t)y * w + x] / of : 1; /* not kept: everything */
            double dark = part <= 0 ? 0 : part >= 1 ? 255 : LEAST + (255 - LEAST) * part;
            cell[(size_t)y * (w + 1) + 1 + x] = (uint8_t)(255 - dark);
        }
    struct dt_str bytes = {0}, text = {0};
    png(&bytes, cell, w, h);
    if (!bytes.failed)
        dt_base64_encode((const uint8_t *)bytes.s, bytes.len, &text);
    text.failed |= bytes.failed;
    dt_str_done(&bytes);
    return dt_str_take(&text);
}

/* The number of the picture in the list; a new one goes to its end. seen: text -> number. -1: memory. */
static json_int_t number_of(json_t *list, json_t *seen, const char *text)
{
    const json_t *n = json_object_get(seen, text);
    json_int_t next = (json_int_t)json_array_size(list);
    if (n)
        return json_integer_value(n);
    if (json_array_append_new(list, json_string(text)) < 0 || json_object_set_new(seen, text, json_integer(next)) < 0)
        return -1;
    return next;
}

int ana_pictures(const struct ana_result *r, json_t *edges, json_t **ret)
{
    json_t *list = json_array(), *seen = json_object();
    int bad = !list || !seen;
    for (uint32_t i = 0; i < r->nedge && !bad; i++) {
        const struct ana_edge *e = &r->edge[i];
        uint32_t p = r->launch[e->producer].nblock, c = r->launch[e->consumer].nblock;
        if (!e->any.npairs || !p || !c || !drawable(&e->any, (uint64_t)p * c))
            continue;
        dt_free_ char *text = picture_draw(&e->any, p, c);
        json_int_t n = text ? number_of(list, seen, text) : -1;
        bad = n < 0 || json_object_set_new(json_array_get(edges, i), "picture", json_integer(n)) < 0;
    }
    json_decref(seen);
    if (bad) {
        json_decref(list);
        return DT_E_NOMEM;
    }
    *ret = list;
    return 0;
}
