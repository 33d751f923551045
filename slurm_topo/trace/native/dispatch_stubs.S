/* The symbols that some MPI libraries lack have a resolver 32 bytes behind their stub: see dispatch_optional.c. */

/*
 * The exported symbols: each jumps through its entry of st_targets and leaves arguments and stack as they are (a
 * forwarding function in C would have to know how many arguments lie on the stack). Until the first call every entry
 * is st_first, which saves the argument registers, resolves the table and jumps again.
 */
#if defined(__x86_64__)

    .text
    .hidden st_optional_begin
    .hidden st_optional_end
    .globl st_optional_begin
    .globl st_optional_end
#define STUB(number, name)                                                                                             \
    .globl name; .type name, @function; .p2align 4;                                                                    \
name: endbr64; movl $number, %r11d; jmpq *(st_targets + 8 * number)(%rip); .size name, . - name;

#define ST_SYMBOL(number, name, real) STUB(number, name)
#define ST_OPTIONAL(number, name, real)
#include "dispatch_table.h"

    .p2align 6
st_optional_begin:
#define ST_OPTIONAL(number, name, real)                                                                                \
    .p2align 6;                                                                                                        \
    STUB(number, name)                                                                                      \
    .p2align 5;                                                                                                        \
    endbr64; movl $number, %edi; leaq name##_stub(%rip), %rsi; jmp st_choose;                                          \
    .set name##_stub, name;
#undef ST_SYMBOL
#define ST_SYMBOL(number, name, real)
#include "dispatch_table.h"
st_optional_end:

    .globl st_first; .hidden st_first; .type st_first, @function; .p2align 4
st_first:
    endbr64
    pushq %rdi
    pushq %rsi
    pushq %rdx
    pushq %rcx
    pushq %r8
    pushq %r9
    pushq %r11
    movq %r11, %rdi
    call st_resolve
    popq %r11
    popq %r9
    popq %r8
    popq %rcx
    popq %rdx
    popq %rsi
    popq %rdi
    leaq st_targets(%rip), %rax
    jmpq *(%rax, %r11, 8)
    .size st_first, . - st_first

#elif defined(__aarch64__)

    .text
    .hidden st_optional_begin
    .hidden st_optional_end
    .globl st_optional_begin
    .globl st_optional_end
#define STUB(number, name)                                                                                             \
    .globl name; .type name, %function; .p2align 4;                                                                    \
name: hint 34; mov w16, number; adrp x17, st_targets; add x17, x17, :lo12:st_targets; ldr x17, [x17, x16, lsl 3];      \
    br x17; .size name, . - name;

#define ST_SYMBOL(number, name, real) STUB(number, name)
#define ST_OPTIONAL(number, name, real)
#include "dispatch_table.h"

    .p2align 6
st_optional_begin:
#define ST_OPTIONAL(number, name, real)                                                                                \
    .p2align 6;                                                                                                        \
    STUB(number, name)                                                                                      \
    .p2align 5;                                                                                                        \
    hint 34; mov x0, number; adr x1, name##_stub; b st_choose;                                                         \
    .set name##_stub, name;
#undef ST_SYMBOL
#define ST_SYMBOL(number, name, real)
#include "dispatch_table.h"
st_optional_end:

    .globl st_first; .hidden st_first; .type st_first, %function; .p2align 4
st_first:
    hint 34
    stp x29, x30, [sp, -96]!
    stp x0, x1, [sp, 16]
    stp x2, x3, [sp, 32]
    stp x4, x5, [sp, 48]
    stp x6, x7, [sp, 64]
    str x16, [sp, 80]
    mov x0, x16
    bl st_resolve
    ldp x0, x1, [sp, 16]
    ldp x2, x3, [sp, 32]
    ldp x4, x5, [sp, 48]
    ldp x6, x7, [sp, 64]
    ldr x16, [sp, 80]
    ldp x29, x30, [sp], 96
    adrp x17, st_targets
    add x17, x17, :lo12:st_targets
    ldr x17, [x17, x16, lsl 3]
    br x17
    .size st_first, . - st_first

#else
#error "no stubs for this architecture: add them here"
#endif

    .section .note.GNU-stack, "", %progbits
