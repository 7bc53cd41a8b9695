/* tileiras.c: the functions of tileiras.h over the Python package (tileiras.program).

   Where the process has no Python yet, one is started: that of TILEIRAS_PYTHON in the environment, else the one that
   the library was built with (-DTILEIRAS_PYTHON="..."), whose packages it sees, and besides them the folder that the
   package was in then (-DTILEIRAS_PACKAGES="..."). It is never ended, since threads of the compiler's libraries may be
   left. Every function takes the interpreter's lock for its time. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tileiras.h"

#ifdef _WIN32
#include <windows.h>
static SRWLOCK starting = SRWLOCK_INIT;
#define LOCK() AcquireSRWLockExclusive(&starting)
#define UNLOCK() ReleaseSRWLockExclusive(&starting)
#else
#include <pthread.h>
static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;
#define LOCK() pthread_mutex_lock(&starting)
#define UNLOCK() pthread_mutex_unlock(&starting)
#endif

struct tileirasProgram_st {
    PyObject *program;          /* tileiras.program.Program */
    PyObject *output;           /* bytes, or null */
};

static tileirasMessageHandler message_handler;
static void *message_user;

void tileirasSetMessageHandler(tileirasMessageHandler handler, void *user) {
    message_handler = handler;
    message_user = user;
}

static void say(const char *text) {
    if (text == NULL || *text == 0)
        return;
    if (message_handler != NULL)
        message_handler(text, message_user);
    else
        fprintf(stderr, "%s\n", text);
}

static int fail(int code, const char *text) {
    char line[160];
    snprintf(line, sizeof line, "error: %s", text);
    say(line);
    return code;
}

/* LLVM works in a forked process. A module that another thread is importing at the fork would never be there for that
   process: what it needs is loaded while there are no other threads. What is missing is said when it is asked for. */
static void load_before_fork(void) {
    static const char *const modules[] = {"llvmlite.binding", "tileiras.codegen.llvm_pipeline"};
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
        PyObject *module = PyImport_ImportModule(modules[i]);
        if (module == NULL)
            PyErr_Clear();
        Py_XDECREF(module);
    }
}

/* Starts Python if there is none. 0, or -1 with a message. */
static int start(void) {
    PyConfig config;
    PyStatus status;
    const char *executable = getenv("TILEIRAS_PYTHON");
    LOCK();
    if (Py_IsInitialized()) {
        UNLOCK();
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
        UNLOCK();
        return fail(-1, status.err_msg != NULL ? status.err_msg : "Python cannot be started");
    }
#ifdef TILEIRAS_PACKAGES
    {
        PyObject *path = PySys_GetObject("path");
        PyObject *folder = PyUnicode_DecodeFSDefault(TILEIRAS_PACKAGES);
        if (path == NULL || folder == NULL || PyList_Append(path, folder) != 0)
            PyErr_Clear();      /* importing the package will say what is missing */
        Py_XDECREF(folder);
    }
#endif
    load_before_fork();
    PyEval_SaveThread();        /* gives up the lock that starting took */
    UNLOCK();
    return 0;
}

/* Says what Python could not do: memory that is not there, or a package that cannot be imported. */
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

/* Calls a function of tileiras.program, which gives (code, result, messages). The lock is held; `arguments` is used
   up. *result, where asked for, is a new reference on success. */
static int call(const char *name, PyObject *arguments, PyObject **result) {
    int code = TILEIRAS_ERROR_OUT_OF_MEMORY;
    PyObject *module = arguments != NULL ? PyImport_ImportModule("tileiras.program") : NULL;
    PyObject *function = module != NULL ? PyObject_GetAttrString(module, name) : NULL;
    PyObject *answer = function != NULL ? PyObject_CallObject(function, arguments) : NULL;
    if (answer != NULL) {
        const char *messages = PyUnicode_AsUTF8(PyTuple_GetItem(answer, 2));
        code = (int)PyLong_AsLong(PyTuple_GetItem(answer, 0));
        if (messages == NULL)
            PyErr_Clear();      /* lone surrogates of a file name: the code has to do */
        else
            say(messages);
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
    struct tileirasProgram_st *made;
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
    PyGILState_Release(state);
    if (code != TILEIRAS_SUCCESS) {
        free(made);
        return code;
    }
    *program = made;
    return TILEIRAS_SUCCESS;
}

int tileirasProgramCompile(tileirasProgram program) {
    PyGILState_STATE state;
    int code;

    if (program == NULL)
        return fail(TILEIRAS_ERROR_INVALID_PROGRAM, "program is null");
    state = PyGILState_Ensure();
    Py_CLEAR(program->output);
    code = call("c_compile", Py_BuildValue("(O)", program->program), NULL);
    PyGILState_Release(state);
    return code;
}

int tileirasProgramGetOutput(tileirasProgram program, tileirasBuffer *output) {
    PyGILState_STATE state;
    PyObject *data = NULL;
    int code;

    if (program == NULL)
        return fail(TILEIRAS_ERROR_INVALID_PROGRAM, "program is null");
    if (output == NULL)
        return fail(TILEIRAS_ERROR_INVALID_PROGRAM, "output pointer is null");
    output->data = NULL;
    output->size = 0;
    state = PyGILState_Ensure();
    code = call("c_output", Py_BuildValue("(O)", program->program), &data);
    if (code == TILEIRAS_SUCCESS) {
        Py_XSETREF(program->output, data);
        output->data = PyBytes_AsString(data);
        output->size = (size_t)PyBytes_Size(data);
    }
    PyGILState_Release(state);
    return code;
}

int tileirasProgramRelease(tileirasProgram program) {
    PyGILState_STATE state;
    int code;

    if (program == NULL)
        return fail(TILEIRAS_ERROR_INVALID_PROGRAM, "program is null");
    state = PyGILState_Ensure();
    code = call("c_release", Py_BuildValue("(O)", program->program), NULL);
    Py_CLEAR(program->output);
    Py_CLEAR(program->program);
    PyGILState_Release(state);
    free(program);
    return code;
}
