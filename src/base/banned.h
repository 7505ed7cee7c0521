/* Makes unsafe libc functions a compile error; included last by every .c file that handles text. */
#ifndef STK_BASE_BANNED_H
#define STK_BASE_BANNED_H

#pragma GCC poison strcpy strcat sprintf vsprintf gets strtok atoi atol atof

#endif
