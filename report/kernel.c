/* Text of kernels: one entry out of a module's PTX, and names in it that say nothing.
 *
 * Nothing is parsed here, and nothing is believed: comments and strings are known, braces are counted. What is no part
 * of what a kernel does is left out: comments, lines of `.loc`, and declarations of registers.
 *
 * Neutral text: an entry was perhaps posted by another user, whose names are in it (the entry's and its parameters',
 * shared arrays', labels', functions'). Every word that can be a name becomes n1, n2 … by first use; registers that
 * are not called as compilers do become %v1, %v2 …. What stays are directives and what begins with a dot, numbers,
 * special registers, and the first word of each instruction.
 */
#include "report/report-priv.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool word(char c) { return isalnum((unsigned char)c) || c == '_' || c == '$'; }

/* Behind what begins at s and is no text of the language: a comment, a string. s itself: nothing of that. */
static const char *beyond(const char *s)
{
    const char *e = NULL;
    if (*s == '/' && s[1] == '/')
        return s + strcspn(s, "\n");
    if (*s == '/' && s[1] == '*')
        return (e = strstr(s + 2, "*/")) ? e + 2 : s + strlen(s);
    if (*s == '"') {
        for (s++; *s && *s != '"' && *s != '\n'; s++)
            s += *s == '\\' && s[1];
        return *s ? s + 1 : s;
    }
    return s;
}

static const char *blank(const char *s)
{
    for (const char *b; isspace((unsigned char)*s) || ((b = beyond(s)) != s && *s == '/'); s = b)
        b = isspace((unsigned char)*s) ? s + 1 : beyond(s);
    return s;
}

/* The `.entry` whose name it is. */
static const char *find(const char *ptx, const char *entry)
{
    size_t n = strlen(entry);
    for (const char *s = ptx, *b; *s; s = b) {
        if ((b = beyond(s)) != s)
            continue;
        b = s + 1;
        if (strncmp(s, ".entry", 6) || word(s[6]))
            continue;
        const char *name = blank(s + 6);
        if (!strncmp(name, entry, n) && !word(name[n]))
            return s;
    }
    return NULL;
}

/* Is the line that begins at s left out? */
static bool boring(const char *s)
{
    static const char *const dir[] = {".loc", ".file", ".reg"};
    s += strspn(s, " \t");
    for (size_t i = 0; i < sizeof dir / sizeof *dir; i++)
        if (!strncmp(s, dir[i], strlen(dir[i])) && !word(s[strlen(dir[i])]))
            return true;
    return *s == '\n';
}

char *rep_entry(const char *ptx, const char *entry)
{
    const char *s = find(ptx, entry);
    struct dt_str o = {0};
    if (!s)
        return NULL;
    int depth = 0;
    bool start = false;
    for (const char *b; *s; s = b) {
        if (start && boring(s)) {
            b = s + strcspn(s, "\n");
            b += *b == '\n';
            continue;
        }
        b = beyond(s);
        start = b == s && *s == '\n';
        if (b != s && *s == '/') /* a comment */
            continue;
        b = b == s ? s + 1 : b;
        dt_str_addn(&o, s, (size_t)(b - s));
        depth += *s == '{' ? 1 : *s == '}' ? -1 : 0;
        if (*s == '}' && depth <= 0)
            break;
    }
    return dt_str_take(&o);
}

/* ---- neutral names ----------------------------------------------------------------------------------------------- */
static bool special(const char *s, size_t n)
{
    static const char *const all[] = {"tid",
                                      "ntid",
                                      "ctaid",
                                      "nctaid",
                                      "laneid",
                                      "warpid",
                                      "nwarpid",
                                      "smid",
                                      "nsmid",
                                      "gridid",
                                      "clock",
                                      "clock64",
                                      "clock_hi",
                                      "globaltimer",
                                      "clusterid",
                                      "nclusterid",
                                      "cluster_ctaid",
                                      "cluster_nctaid",
                                      "lanemask_eq",
                                      "lanemask_le",
                                      "lanemask_lt",
                                      "lanemask_ge",
                                      "lanemask_gt",
                                      "globaltimer_lo",
                                      "globaltimer_hi",
                                      "cluster_ctarank",
                                      "cluster_nctarank",
                                      "dynamic_smem_size",
                                      "total_smem_size",
                                      "aggr_smem_size",
                                      "is_explicit_cluster"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strlen(all[i]) == n && !strncmp(all[i], s, n))
            return true;
    return false;
}

/* As compilers call registers: one or two letters, then digits. */
static bool usual(const char *s, size_t n)
{
    size_t k = 0;
    while (k < n && islower((unsigned char)s[k]))
        k++;
    for (size_t i = k; i < n; i++)
        if (!isdigit((unsigned char)s[i]))
            return false;
    return k >= 1 && k <= 2;
}

/* The number of a name among those that were met; 0: memory is out. */
static json_int_t met(json_t *seen, const char *s, size_t n)
{
    char key[160];
    if (n >= sizeof key)
        n = sizeof key - 1;
    memcpy(key, s, n);
    key[n] = 0;
    const json_t *at = json_object_get(seen, key);
    json_int_t next = (json_int_t)json_object_size(seen) + 1;
    if (at)
        return json_integer_value(at);
    return json_object_set_new(seen, key, json_integer(next)) == 0 ? next : 0;
}

char *rep_neutral(const char *s)
{
    struct dt_str o = {0};
    json_t *names = json_object(), *registers = json_object();
    bool first = true; /* of a statement */
    for (const char *b; *s; s = b) {
        b = beyond(s);
        if (b != s) { /* a comment, a string */
            dt_str_add(&o, *s == '"' ? "\"\"" : " ");
            continue;
        }
        size_t n = 0;
        if (*s == '%' || *s == '.' || word(*s))
            for (n = *s == '%' || *s == '.'; word(s[n]);)
                n++;
        b = s + (n ? n : 1);
        if (*s == '%' && n > 1 && !special(s + 1, n - 1) && !usual(s + 1, n - 1))
            dt_str_addf(&o, "%%v%lld", (long long)met(registers, s + 1, n - 1));
        else if (!n || *s == '%' || *s == '.' || isdigit((unsigned char)*s) || (first && s[n] != ':'))
            dt_str_addn(&o, s, (size_t)(b - s));
        else
            dt_str_addf(&o, "n%lld", (long long)met(names, s, n));
        if (n && (*s == '%' || *s == '.' || word(*s))) /* a predicate (@%p, @!%p) does not end the beginning */
            first = *s == '%' && first;
        else if (*s == ';' || *s == '{' || *s == '}' || *s == ':')
            first = true;
    }
    o.failed |= !names || !registers;
    json_decref(names);
    json_decref(registers);
    return dt_str_take(&o);
}
