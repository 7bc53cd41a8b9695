/* tileiras.c: the functions of tileiras.h over the Python package (tileiras.driver.program).

   Where the process has no Python yet, one is started: that of TILEIRAS_PYTHON in the environment, else the one that
   the library was built with (-DTILEIRAS_PYTHON="..."), whose packages it sees, and besides them the folder that the
   package was in then (-DTILEIRAS_PACKAGES="..."). It is never ended, since threads of the compiler's libraries may be
   left. Every function takes the interpreter's lock for its time.

   A handle is a number, never an address: the place of its program in a table, and how many programs that place has
   had before. A released or invalid handle names no program. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tileiras.h"

#ifdef _WIN32
#include <windows.h>
typedef SRWLOCK lock_type;
#define UNLOCKED SRWLOCK_INIT
#define LOCK(name) AcquireSRWLockExclusive(&name)
#define UNLOCK(name) ReleaseSRWLockExclusive(&name)
#else
#include <pthread.h>
typedef pthread_mutex_t lock_type;
#define UNLOCKED PTHREAD_MUTEX_INITIALIZER
#define LOCK(name) pthread_mutex_lock(&name)
#define UNLOCK(name) pthread_mutex_unlock(&name)
#endif

static lock_type starting = UNLOCKED;   /* held while Python is started */
static lock_type naming = UNLOCKED;     /* held to look at the table; nothing is waited for meanwhile */

struct program {
    PyObject *program;          /* tileiras.driver.program.Program */
    PyObject *output;           /* bytes, or null */
    size_t users;               /* its handle, and the calls that work on it */
};

struct place {
    struct program *program;    /* null while the place is free */
    uintptr_t generation;       /* number of the program there, or of the next; never 0 */
    size_t next;                /* of a free place: one more than the next free one */
};

static struct place *places;
static size_t place_count, first_free;  /* first_free as `next` */

#define PLACE_BITS (sizeof(uintptr_t) * 3)          /* of a handle: 24 of 64, 12 of 32 */
#define MOST_PLACES (((uintptr_t)1 << PLACE_BITS) - 1)
#define MOST_GENERATIONS (UINTPTR_MAX >> PLACE_BITS)

/* The place that a handle names, or null. `naming` is held. */
static struct place *place_of(tileirasProgram handle) {
    uintptr_t number = (uintptr_t)handle, at = number & MOST_PLACES;

    if (at == 0 || at > place_count)
        return NULL;
    return places[at - 1].program != NULL && places[at - 1].generation == number >> PLACE_BITS ? &places[at - 1] : NULL;
}

/* A handle for a program; null when there is no memory, or no place left. */
static tileirasProgram new_handle(struct program *program) {
    uintptr_t handle = 0;

    LOCK(naming);
    if (first_free == 0 && place_count < MOST_PLACES) {
        size_t count = place_count == 0 ? 16 : place_count * 2;
        struct place *more;
        if (count > MOST_PLACES)
            count = MOST_PLACES;
        more = realloc(places, count * sizeof *places);
        if (more != NULL) {
            places = more;
            for (size_t at = count; at > place_count; at--) {
                places[at - 1] = (struct place){NULL, 1, first_free};
                first_free = at;
            }
            place_count = count;
        }
    }
    if (first_free != 0) {
        struct place *place = &places[first_free - 1];
        handle = place->generation << PLACE_BITS | first_free;
        first_free = place->next;
        place->program = program;
        program->users = 1;
    }
    UNLOCK(naming);
    return (tileirasProgram)handle;
}

/* The program of a handle, which is there until `leave`; null for a handle that names none. */
static struct program *enter(tileirasProgram handle) {
    struct program *program = NULL;
    struct place *place;

    LOCK(naming);
    place = place_of(handle);
    if (place != NULL) {
        program = place->program;
        program->users++;
    }
    UNLOCK(naming);
    return program;
}

/* As `enter`, and the handle names nothing from then on. A place whose numbers are used up stays empty. */
static struct program *take(tileirasProgram handle) {
    struct program *program = NULL;
    struct place *place;

    LOCK(naming);
    place = place_of(handle);
    if (place != NULL) {
        program = place->program;
        place->program = NULL;
        if (place->generation < MOST_GENERATIONS) {
            place->generation++;
            place->next = first_free;
            first_free = (size_t)(place - places) + 1;
        }
    }
    UNLOCK(naming);
    return program;
}

/* Ends a call that `enter` or `take` has begun. Python's lock is held. */
static void leave(struct program *program) {
    size_t users;

    LOCK(naming);
    users = --program->users;
    UNLOCK(naming);
    if (users == 0) {
        Py_CLEAR(program->output);
        Py_CLEAR(program->program);
        free(program);
    }
}

static tileirasMessageHandler message_handler;
static void *message_user;

void tileirasSetMessageHandler(tileirasMessageHandler handler, void *user) {
    message_handler = handler;
    message_user = user;
}

static tileirasDiagnosticHandler diagnostic_handler;
static void *diagnostic_user;

void tileirasSetDiagnosticHandler(tileirasDiagnosticHandler handler, void *user) {
    diagnostic_handler = handler;
    diagnostic_user = user;
}

static void say(const char *text) {
    if (text == NULL || *text == 0)
        return;
    if (message_handler != NULL)
        message_handler(text, message_user);
    else
        fprintf(stderr, "%s\n", text);
}

/* Offers a diagnostic to its handler, at most once, and says its text where none accepts it. */
static void flush(tileirasDiagnostic *diagnostic, const char *text) {
    int accepted;
    if (!diagnostic->alive)
        return;
    diagnostic->alive = 0;
    accepted = diagnostic_handler != NULL && diagnostic_handler(diagnostic, diagnostic_user);
    diagnostic->location = NULL;
    if (!accepted)
        say(text);
}

/* The severity word of a failure without Python: those of rejections are of codes 2 and 4. */
static uint16_t severity_of(int code) {
    int refused = code == TILEIRAS_ERROR_INVALID_CONFIGURATION || code == TILEIRAS_ERROR_INVALID_PROGRAM;
    return refused ? 0x503 : 0x103;
}

static int fail(int code, const char *text) {
    char line[160];
    tileirasLocation nowhere = {"", 0, 0};
    tileirasDiagnostic made;
    int slot;

    memset(&made, 0, sizeof made);
    made.location = &nowhere;
    made.severity = severity_of(code);
    made.arguments = made.inlineArguments;
    made.argumentCount = 1;
    made.argumentCapacity = 4;
    made.inlineArguments[0].value = (uint64_t)(uintptr_t)text;
    made.inlineArguments[0].length = strlen(text);
    for (slot = 0; slot < 4; slot++)
        made.inlineArguments[slot].kind = slot ? TILEIRAS_ARGUMENT_UNSET : TILEIRAS_ARGUMENT_TEXT;
    made.alive = 1;
    snprintf(line, sizeof line, "error: %s", text);
    flush(&made, line);
    return code;
}

/* LLVM works in a forked process. A module that another thread is importing at the fork would never be there for that
   process: its modules are loaded while there are no other threads. A missing module is reported at its first use. */
static void load_before_fork(void) {
    static const char *const modules[] = {"llvmlite.binding", "tileiras.codegen.llvm_pipeline"};
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
        PyObject *module = PyImport_ImportModule(modules[i]);
        if (module == NULL)
            PyErr_Clear();
        Py_XDECREF(module);
    }
}

/* Starts Python if it is not running. 0, or -1 with a message. */
static int start(void) {
    PyConfig config;
    PyStatus status;
    const char *executable = getenv("TILEIRAS_PYTHON");
    LOCK(starting);
    if (Py_IsInitialized()) {
        UNLOCK(starting);
        return 0;
    }
#ifdef TILEIRAS_PYTHON
    if (executable == NULL)
        executable = TILEIRAS_PYTHON;
#endif
    PyConfig_InitPythonConfig(&config);
    config.install_signal_handlers = 0;
    config.parse_argv = 0;
    status = PyStatus_Ok();
    if (executable != NULL)
        status = PyConfig_SetBytesString(&config, &config.program_name, executable);
    if (!PyStatus_Exception(status))
        status = Py_InitializeFromConfig(&config);
    PyConfig_Clear(&config);
    if (PyStatus_Exception(status)) {
        UNLOCK(starting);
        return fail(-1, status.err_msg != NULL ? status.err_msg : "Python cannot be started");
    }
#ifdef TILEIRAS_PACKAGES
    {
        PyObject *path = PySys_GetObject("path");
        PyObject *folder = PyUnicode_DecodeFSDefault(TILEIRAS_PACKAGES);
        if (path == NULL || folder == NULL || PyList_Append(path, folder) != 0)
            PyErr_Clear();      /* importing the package reports the missing module */
        Py_XDECREF(folder);
    }
#endif
    load_before_fork();
    PyEval_SaveThread();        /* gives up the lock that starting took */
    UNLOCK(starting);
    return 0;
}

/* Reports a failure of Python: no memory, or a package that cannot be imported. */
static void say_exception(void) {
    PyObject *value, *text = NULL;
    const char *words = NULL;
    char line[1024];
#if PY_VERSION_HEX >= 0x030C0000
    value = PyErr_GetRaisedException();
#else
    PyObject *type, *trace;

    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
#endif
    if (value != NULL && !PyErr_GivenExceptionMatches(value, PyExc_MemoryError))
        text = PyObject_Str(value);
    if (text != NULL)
        words = PyUnicode_AsUTF8(text);
    if (words != NULL)
        snprintf(line, sizeof line, "error: the compiler cannot be loaded: %s", words);
    say(words != NULL ? line : "error: failed to allocate memory for program");
    PyErr_Clear();
    Py_XDECREF(text);
    Py_XDECREF(value);
}

/* Says the messages of an answer: all at once, or each to the handler of diagnostics first. */
static void say_answer(PyObject *messages, PyObject *bodies) {
    const char *text;
    Py_ssize_t number;
    if (diagnostic_handler != NULL && PyList_Size(bodies) > 0) {
        for (number = 0; number < PyList_Size(bodies); number++) {
            PyObject *body = PyList_GetItem(bodies, number);
            tileirasDiagnostic *diagnostic = PyLong_AsVoidPtr(PyTuple_GetItem(body, 0));
            text = PyUnicode_AsUTF8(PyTuple_GetItem(body, 1));
            if (text == NULL)
                PyErr_Clear();
            if (diagnostic != NULL)
                flush(diagnostic, text);
        }
        return;
    }
    text = PyUnicode_AsUTF8(messages);
    if (text == NULL)
        PyErr_Clear();      /* lone surrogates of a file name: the code has to do */
    else
        say(text);
}

/* Calls a function of tileiras.driver.program, which gives (code, result, messages, bodies). The lock is held; `arguments`
   is used up. *result, where asked for, is a new reference on success. */
static int call(const char *name, PyObject *arguments, PyObject **result) {
    int code = TILEIRAS_ERROR_OUT_OF_MEMORY;
    PyObject *module = arguments != NULL ? PyImport_ImportModule("tileiras.driver.program") : NULL;
    PyObject *function = module != NULL ? PyObject_GetAttrString(module, name) : NULL;
    PyObject *answer = function != NULL ? PyObject_CallObject(function, arguments) : NULL;
    if (answer != NULL) {
        code = (int)PyLong_AsLong(PyTuple_GetItem(answer, 0));
        say_answer(PyTuple_GetItem(answer, 2), PyTuple_GetItem(answer, 3));
        if (code == TILEIRAS_SUCCESS && result != NULL)
            *result = Py_NewRef(PyTuple_GetItem(answer, 1));
        Py_DECREF(answer);
    } else {
        say_exception();
    }
    Py_XDECREF(function);
    Py_XDECREF(module);
    Py_XDECREF(arguments);
    return code;
}

int tileirasProgramCreate(tileirasProgram *program, const tileirasProgramConfig *config) {
    struct program *made;
    PyGILState_STATE state;
    PyObject *arguments;
    int code;

    if (program == NULL)
        return fail(TILEIRAS_ERROR_INVALID_PROGRAM, "program is null");
    *program = NULL;
    if (config == NULL)
        return fail(TILEIRAS_ERROR_INVALID_CONFIGURATION, "configuration is null");
    if (config->inputBuffer == NULL)
        return fail(TILEIRAS_ERROR_INVALID_CONFIGURATION, "input buffer is null");
    if (start() != 0)
        return TILEIRAS_ERROR_OUT_OF_MEMORY;
    made = calloc(1, sizeof *made);
    if (made == NULL)
        return fail(TILEIRAS_ERROR_OUT_OF_MEMORY, "failed to allocate memory for program");
    state = PyGILState_Ensure();
    arguments = Py_BuildValue(
        "(y#iiiiiiisz)", (const char *)config->inputBuffer, (Py_ssize_t)config->inputSize, config->gpu, config->optLevel,
        config->deviceDebug, config->lineInfo, config->hostArch, config->hostOS, config->sanitize,
        config->outputFile != NULL ? config->outputFile : "elf.o", config->cudaRoot);
    code = call("c_create", arguments, &made->program);
    if (code == TILEIRAS_SUCCESS) {
        *program = new_handle(made);
        if (*program == NULL)
            code = fail(TILEIRAS_ERROR_OUT_OF_MEMORY, "failed to allocate memory for program");
    }
    if (code != TILEIRAS_SUCCESS) {
        Py_CLEAR(made->program);
        free(made);
    }
    PyGILState_Release(state);
    return code;
}

int tileirasProgramCompile(tileirasProgram handle) {
    struct program *program = enter(handle);
    PyGILState_STATE state;
    int code;

    if (program == NULL)
        return fail(TILEIRAS_ERROR_INVALID_PROGRAM, "program is null");
    state = PyGILState_Ensure();
    Py_CLEAR(program->output);
    code = call("c_compile", Py_BuildValue("(O)", program->program), NULL);
    leave(program);
    PyGILState_Release(state);
    return code;
}

int tileirasProgramGetOutput(tileirasProgram handle, tileirasBuffer *output) {
    struct program *program = enter(handle);
    PyGILState_STATE state;
    PyObject *data = NULL;
    int code;

    if (program == NULL)
        return fail(TILEIRAS_ERROR_INVALID_PROGRAM, "program is null");
    state = PyGILState_Ensure();
    if (output == NULL) {
        code = fail(TILEIRAS_ERROR_INVALID_PROGRAM, "output pointer is null");
    } else {
        output->data = NULL;
        output->size = 0;
        code = call("c_output", Py_BuildValue("(O)", program->program), &data);
    }
    if (code == TILEIRAS_SUCCESS) {
        Py_XSETREF(program->output, data);
        output->data = PyBytes_AsString(data);
        output->size = (size_t)PyBytes_Size(data);
    }
    leave(program);
    PyGILState_Release(state);
    return code;
}

int tileirasProgramRelease(tileirasProgram handle) {
    struct program *program = take(handle);
    PyGILState_STATE state;
    int code;

    if (program == NULL)
        return fail(TILEIRAS_ERROR_INVALID_PROGRAM, "program is null");
    state = PyGILState_Ensure();
    code = call("c_release", Py_BuildValue("(O)", program->program), NULL);
    leave(program);
    PyGILState_Release(state);
    return code;
}
