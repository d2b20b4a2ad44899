/* What ibarp_in_c.c offers to the test that has a server running. */
#ifndef IBARP_IN_C_H
#define IBARP_IN_C_H

#ifdef __cplusplus
extern "C" {
#endif

/* Uses each function of ibarp.h as a C program would. Returns 0, or the line of the first
 * expectation that failed. */
int ibarp_in_c(const char* interface);

#ifdef __cplusplus
}
#endif

#endif
