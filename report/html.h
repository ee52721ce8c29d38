/* HTML that holds other people's text: for the parts of a page (report-priv.h) and for other pages (the report of a
 * night). */
#ifndef DT_REPORT_HTML_H
#define DT_REPORT_HTML_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

/* The policy of every page, in its head and, where a service serves it, in the answer's. */
#define HTML_POLICY "default-src 'none'; img-src data:; style-src 'unsafe-inline'"

void html_begin(struct dt_str *o, const char *title); /* up to an open paragraph below the heading */
void html_head(struct dt_str *o, const char *title);  /* up to the open body */
/* Escaped, for text and for attributes in double quotes. Control characters and those that turn the direction of text
 * become '?'; NULL: nothing. */
void html_text(struct dt_str *o, const char *s);
void html_name(struct dt_str *o, const char *s, size_t most); /* the same, cut in the middle to so many characters */
void html_block(struct dt_str *o, const char *s, size_t n);   /* the same of n bytes that may have lines and tabs */
void html_cell(struct dt_str *o, const char *s);

#endif
