/* Makes unsafe libc functions a compile error; included last by every .c file that handles text. */
#ifndef STK_BASE_BANNED_H
#define STK_BASE_BANNED_H

/* libc makes macros of some where functions are checked, and a macro cannot be poisoned. */
#undef sprintf
#undef vsprintf
#pragma GCC poison strcpy strcat sprintf vsprintf gets strtok atoi atol atof

#endif
