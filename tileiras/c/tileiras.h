/* tileiras.h: the compiler for CUDA Tile IR in a C program.

   A program (the handle) is created from a configuration, compiled, asked for its cubin and released:

       tileirasProgramConfig config = {.inputBuffer = data, .inputSize = size, .gpu = 90, .optLevel = 3};
       tileirasProgram program;
       tileirasBuffer cubin;
       if (tileirasProgramCreate(&program, &config) == TILEIRAS_SUCCESS) {
           if (tileirasProgramCompile(program) == TILEIRAS_SUCCESS
               && tileirasProgramGetOutput(program, &cubin) == TILEIRAS_SUCCESS)
               ...
           tileirasProgramRelease(program);
       }

   Functions return a tileirasResult and may be called from any thread. Their messages (errors with their place
   in the source, warnings) go to standard error, or to a handler. The library embeds Python, or joins the one of the
   process that it is loaded into. */
#ifndef TILEIRAS_H
#define TILEIRAS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#define TILEIRAS_API __declspec(dllexport)
#else
#define TILEIRAS_API __attribute__((visibility("default")))
#endif

typedef enum tileirasResult {
    TILEIRAS_SUCCESS = 0,
    TILEIRAS_ERROR_OUT_OF_MEMORY = 1,         /* also: no Python with the package can be started */
    TILEIRAS_ERROR_INVALID_CONFIGURATION = 2,
    TILEIRAS_ERROR_INVALID_INPUT = 3,         /* the input is no Tile IR, or damaged */
    TILEIRAS_ERROR_INVALID_PROGRAM = 4,       /* a null or released handle, a null pointer, or nothing compiled yet */
    TILEIRAS_ERROR_COMPILATION = 5
} tileirasResult;

typedef struct tileirasProgram_st *tileirasProgram;

typedef enum tileirasHostArch {
    TILEIRAS_HOST_ARCH_X86_64 = 0,
    TILEIRAS_HOST_ARCH_AARCH64 = 1,
    TILEIRAS_HOST_ARCH_ARM64EC = 2
} tileirasHostArch;
typedef enum tileirasHostOS { TILEIRAS_HOST_OS_LINUX = 0, TILEIRAS_HOST_OS_WINDOWS = 1 } tileirasHostOS;
typedef enum tileirasSanitize { TILEIRAS_SANITIZE_NONE = 0, TILEIRAS_SANITIZE_MEMCHECK = 1 } tileirasSanitize;

typedef struct tileirasProgramConfig {
    const void *inputBuffer;    /* bytecode, or MLIR text; copied */
    size_t inputSize;           /* in bytes */
    int gpu;                    /* 90 for sm_90 */
    int optLevel;               /* 0 to 3 */
    int deviceDebug;            /* full debug information; at level 0 only */
    int lineInfo;               /* line tables */
    int hostArch;               /* tileirasHostArch, of the code in .nv.host; 0 for this machine's */
    int hostOS;                 /* tileirasHostOS; 0 for this machine's */
    int sanitize;               /* tileirasSanitize */
    const char *outputFile;     /* may be null; nothing is written */
    const char *cudaRoot;       /* toolkit with ptxas and libdevice; null looks for them */
} tileirasProgramConfig;

typedef struct tileirasBuffer {
    const void *data;
    size_t size;                /* in bytes */
} tileirasBuffer;

/* Checks the configuration and makes a handle. On failure *program is null. */
TILEIRAS_API int tileirasProgramCreate(tileirasProgram *program, const tileirasProgramConfig *config);

/* Makes the cubin. May be called again. */
TILEIRAS_API int tileirasProgramCompile(tileirasProgram program);

/* The cubin, which belongs to the program until its next compilation or its release. */
TILEIRAS_API int tileirasProgramGetOutput(tileirasProgram program, tileirasBuffer *output);

/* Gives up the program. A call that works on it in another thread ends as it would have; later ones are refused. */
TILEIRAS_API int tileirasProgramRelease(tileirasProgram program);

/* Sends messages to `handler` instead of standard error, for all threads; null restores standard error. */
typedef void (*tileirasMessageHandler)(const char *text, void *user);
TILEIRAS_API void tileirasSetMessageHandler(tileirasMessageHandler handler, void *user);

/* The documented body of a diagnostic: 208 bytes on machines with pointers of 64 bits. */

typedef struct tileirasLocation {
    const char *file;           /* UTF-8 */
    uint32_t line, column;      /* from 1; 0 where unknown */
} tileirasLocation;

enum {
    TILEIRAS_ARGUMENT_UNSET = 1,
    TILEIRAS_ARGUMENT_INTEGER = 2,
    TILEIRAS_ARGUMENT_TEXT = 5
};

typedef struct tileirasDiagnosticArgument {
    uint8_t kind;
    uint64_t value;             /* the integer, or the address of the text */
    uint64_t length;            /* of the text, in bytes */
} tileirasDiagnosticArgument;

typedef struct tileirasDiagnostic tileirasDiagnostic;

struct tileirasDiagnostic {
    const tileirasLocation *location;                   /* 0x00; null once it is flushed */
    uint64_t unused;
    uint16_t severity;                                  /* 0x10: class, 0x100 of an operation, 0x200 with a trace */
    const tileirasDiagnosticArgument *arguments;        /* 0x18: whose texts make up the message */
    uint32_t argumentCount, argumentCapacity;           /* 0x20 */
    tileirasDiagnosticArgument inlineArguments[4];      /* 0x28 */
    struct {
        const char *const *begin;
        uint32_t size, capacity;
        uint64_t unused;
    } ownedStrings;                                     /* 0x88 */
    struct {
        tileirasDiagnostic *const *begin;
        uint32_t size, capacity;
        uint64_t unused;
    } notes;                                            /* 0xA0 */
    void *sink;                                         /* 0xB8; null */
    uint64_t reserved;
    uint8_t alive;                                      /* 0xC8: 1 until it is flushed */
};

/* Offers each diagnostic to `handler`, before the message handler, until the call returns; not 0 accepts it, so that its
   text goes nowhere else. Null removes the handler. It must not call the library. */
typedef int (*tileirasDiagnosticHandler)(const tileirasDiagnostic *diagnostic, void *user);
TILEIRAS_API void tileirasSetDiagnosticHandler(tileirasDiagnosticHandler handler, void *user);

#ifdef __cplusplus
}
#endif

#endif
