/* A plan document as one HTML file for people. */
#ifndef DTD_REPORT_H
#define DTD_REPORT_H

#include <jansson.h>

char *dtd_report_html(const json_t *plan); /* caller frees; NULL: out of memory */

#endif
