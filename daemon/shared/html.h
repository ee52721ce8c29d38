/* Inside daemon/shared: what the HTML documents have in common (report.c, night-html.c). */
#ifndef DTD_HTML_H
#define DTD_HTML_H

#include "base/str.h"

void html_begin(struct dt_str *o, const char *title); /* up to an open paragraph below the heading */
void html_text(struct dt_str *o, const char *s);      /* escaped; NULL: nothing */
void html_cell(struct dt_str *o, const char *s);

#endif
