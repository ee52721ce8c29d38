/* Which handles exist: an open-addressing hash table from pointer to kind.
 *
 * A handle is the address of its object. A program may pass anything: NULL, garbage, a handle of another kind, a handle
 * that was destroyed. So an entry looks a handle up here before it follows it; what is not in the table is never read.
 * The memory of the last QUARANTINE destroyed objects is kept back. So no new object gets the address of a handle that
 * was destroyed a while ago.
 *
 * The table uses linear probing and is at most half full; a deletion moves later entries back. The caller holds the
 * lock (state.c).
 */
#include <stdlib.h>

#include "softgpu/libcuda/cu-priv.h"

static struct slot {
    const void *p;
    enum cu_kind kind;
} * table;
static size_t room, used; /* room: a power of two, or 0 */

static size_t home(const void *p)
{
    return (size_t)(((uint64_t)(uintptr_t)p >> 4) * UINT64_C(0x9E3779B97F4A7C15) >> 20) & (room - 1);
}

static void handle_put(const void *p, enum cu_kind kind)
{
    size_t i = home(p);
    while (table[i].p)
        i = (i + 1) & (room - 1);
    table[i] = (struct slot){p, kind};
}

bool cu_handle_add(const void *p, enum cu_kind kind)
{
    if (2 * (used + 1) > room) {
        size_t old_room = room;
        struct slot *old = table, *fresh = dt_calloc(old_room ? 2 * old_room : 256, sizeof *fresh);
        if (!fresh)
            return false;
        room = old_room ? 2 * old_room : 256;
        table = fresh;
        for (size_t i = 0; i < old_room; i++)
            if (old[i].p)
                handle_put(old[i].p, old[i].kind);
        free(old);
    }
    handle_put(p, kind);
    used++;
    return true;
}

static struct slot *handle_find(const void *p)
{
    if (!p || !room)
        return NULL;
    for (size_t i = home(p); table[i].p; i = (i + 1) & (room - 1))
        if (table[i].p == p)
            return &table[i];
    return NULL;
}

bool cu_is(const void *p, enum cu_kind kind)
{
    const struct slot *s = handle_find(p);
    return s && s->kind == kind;
}

void cu_handle_drop(const void *p)
{
    struct slot *s = handle_find(p);
    if (!s)
        return;
    size_t hole = (size_t)(s - table);
    for (size_t i = (hole + 1) & (room - 1); table[i].p; i = (i + 1) & (room - 1))
        if (((i - home(table[i].p)) & (room - 1)) >= ((i - hole) & (room - 1))) { /* it may live in the hole */
            table[hole] = table[i];
            hole = i;
        }
    table[hole].p = NULL;
    used--;
}

void cu_handle_free(void *p)
{
    enum { QUARANTINE = 1024 };
    static void *kept[QUARANTINE];
    static unsigned next;
    cu_handle_drop(p);
    free(kept[next % QUARANTINE]);
    kept[next++ % QUARANTINE] = p;
}
