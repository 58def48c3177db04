/* SCR_Configf takes what printf takes, which Rust cannot. `config.rs` exports it. */

#define _GNU_SOURCE

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

extern const char* SCR_Config(const char* config);

__attribute__((visibility("hidden"))) const char* scr_configf(const char* format, ...)
{
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    int length = format == NULL ? -1 : vasprintf(&text, format, arguments);
    va_end(arguments);
    const char *answer = SCR_Config(length < 0 ? NULL : text);
    if (length >= 0)
        free(text);
    return answer;
}
