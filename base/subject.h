/* Sentences that know which of their words name a launch, a buffer or a module of a graph.
 *
 * A reason for a refusal is stored with a plan, and a plan is stored without anybody's names: whoever posts an equal
 * graph gets it with their own. So a sentence is made with its subjects marked,
 *
 *     dt_str_addf(why, DT_LAUNCH " writes " DT_BUFFER, launch->name, buffer->name);
 *
 * cache/rename.c gives the marked words other names, and dt_plain makes text of it at the end: 'gemm' writes 'h'. A
 * mark is the byte 1, a letter for the kind, the name, and the byte 2. Text has the name between single quotes, but for
 * the name of a row and that of a bare launch ("launch gemm: …"). Names in a graph have no control characters
 * (graph/member.c). An error's detail is plain text; its marked form is kept beside it (struct dt_err).
 */
#ifndef DT_BASE_SUBJECT_H
#define DT_BASE_SUBJECT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

#define DT_LAUNCH "\001l%s\002"
#define DT_LAUNCH_BARE "\001n%s\002" /* without quotes */
#define DT_BUFFER "\001b%s\002"
#define DT_ROW(name) "\001r" name "\002" /* the condition that does not hold, at the start: DT_ROW("order") ": …" */
#define DT_MODULE "\001m%s\002"

/* The next subject of a sentence: its kind ('l', 'n', 'b', 'm', 'r'), its name and the name's length. Returns where the
 * sentence goes on behind the mark; *ret_mark is where the mark begins. NULL: there is no more; the outputs stay as
 * they are. */
const char *dt_subject(const char *s, const char **ret_mark, char *ret_kind, const char **ret_name, size_t *ret_len);
/* Does text have the name of such a subject between single quotes? */
bool dt_quoted(char kind);
/* The sentence as text; in place, since text is never longer. Gives `s` back; NULL stays
 * NULL. */
char *dt_plain(char *s);

/* Does the sentence begin with this row? */
bool dt_has_row(const char *s, const char *row);
/* A row's mark, for a name as C has it: dashes stand for '_'. */
void dt_add_row(struct dt_str *to, const char *name);

#endif
