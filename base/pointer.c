/* JSON pointers: the contract is in pointer.h. Keys are names of any length out of documents; nothing is cut off. */
#include "base/pointer.h"

void dt_pointer_add(struct dt_str *s, const char *key)
{
    dt_str_addc(s, '/');
    for (; *key; key++) {
        if (*key == '~')
            dt_str_add(s, "~0");
        else if (*key == '/')
            dt_str_add(s, "~1");
        else
            dt_str_addc(s, *key);
    }
}
