# Kernels in CMake projects:
#
#     find_package(tileiras REQUIRED)          # cmake -Dtileiras_DIR=$(tileiras --cmakedir)
#     add_executable(app main.cpp)
#     tileiras_target_kernels(app SOURCES saxpy.mlir softmax.py GPU sm_80 sm_90)
#
# Defines the function, the target tileiras::tileiras (the loader tileiras.hpp and its libraries), and the cache variable
# TILEIRAS_EMBED, the program that compiles kernels.

cmake_minimum_required(VERSION 3.20)  # DEPFILE with Makefiles as well

get_filename_component(_tileiras_package "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

# Beside the site-packages that this file lies in, then on PATH (a checkout that is installed in place).
find_program(TILEIRAS_EMBED tileiras-embed
  HINTS "${_tileiras_package}/../../../../bin" "${_tileiras_package}/../../../Scripts"
  DOC "The program that compiles Tile IR kernels to C++ sources")
mark_as_advanced(TILEIRAS_EMBED)
if(NOT TILEIRAS_EMBED)
  set(tileiras_FOUND FALSE)
  set(tileiras_NOT_FOUND_MESSAGE "tileiras-embed is neither beside ${_tileiras_package} nor on PATH; set TILEIRAS_EMBED")
  return()
endif()

if(NOT TARGET tileiras::tileiras)
  add_library(tileiras::tileiras INTERFACE IMPORTED)
  set_target_properties(tileiras::tileiras PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${_tileiras_package}/cpp"
    INTERFACE_COMPILE_FEATURES cxx_std_17
    INTERFACE_LINK_LIBRARIES "${CMAKE_DL_LIBS}")
endif()
unset(_tileiras_package)

# tileiras_target_kernels(<target> [PRIVATE|PUBLIC] SOURCES <source>... GPU <gpu>...
#                         [EMIT ptx|cubin...] [NAMESPACE <name>] [OPTIONS <option>...])
#
# Gives a target the kernels of each source: an object with the images, and a header NAME.h of the source NAME.mlir,
# NAME.tileirbc or NAME.py on its include path; PUBLIC also on that of targets that link it.  GPU defaults to the
# variable TILEIRAS_GPU, NAMESPACE to NAME, EMIT to ptx.  OPTIONS are the compiler's, such as -O2 or --ftz.
function(tileiras_target_kernels target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "PRIVATE;PUBLIC" "NAMESPACE" "SOURCES;GPU;EMIT;OPTIONS")
  if(NOT TARGET "${target}")
    message(FATAL_ERROR "tileiras_target_kernels: there is no target '${target}'")
  endif()
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tileiras_target_kernels: unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT arg_SOURCES)
    message(FATAL_ERROR "tileiras_target_kernels: SOURCES are needed")
  endif()
  if(NOT arg_GPU)
    set(arg_GPU ${TILEIRAS_GPU})
  endif()
  if(NOT arg_GPU)
    message(FATAL_ERROR "tileiras_target_kernels: GPU is needed, such as sm_90, or the variable TILEIRAS_GPU")
  endif()
  if(NOT arg_EMIT)
    set(arg_EMIT ptx)
  endif()
  list(JOIN arg_GPU "," gpus)
  list(JOIN arg_EMIT "," emits)
  set(visibility PRIVATE)
  if(arg_PUBLIC)
    set(visibility PUBLIC)
  endif()

  set(folder "${CMAKE_CURRENT_BINARY_DIR}/tileiras/${target}")
  file(MAKE_DIRECTORY "${folder}")
  foreach(source IN LISTS arg_SOURCES)
    get_filename_component(source "${source}" ABSOLUTE)
    get_filename_component(name "${source}" NAME_WLE)
    set(header "${folder}/${name}.h")
    get_property(known SOURCE "${header}" PROPERTY TILEIRAS_SOURCE)
    if(known)
      message(FATAL_ERROR "tileiras_target_kernels: '${source}' and '${known}' of target '${target}' are both ${name}.h")
    endif()
    set_property(SOURCE "${header}" PROPERTY TILEIRAS_SOURCE "${source}")
    set(namespace "${arg_NAMESPACE}")
    if(NOT namespace)
      string(MAKE_C_IDENTIFIER "${name}" namespace)
    endif()
    set(images "${folder}/${name}_images.cpp")
    # A file of options, which Make compares by its time: it does not notice another command line.
    set(options "${folder}/${name}.options")
    set(words "")
    foreach(word "--gpu-name=${gpus}" "--emit=${emits}" "--namespace=${namespace}" ${arg_OPTIONS})
      string(REGEX REPLACE "([\\\\\"])" "\\\\\\1" word "${word}")
      string(APPEND words "\"${word}\"\n")
    endforeach()
    file(CONFIGURE OUTPUT "${options}" CONTENT "${words}" @ONLY)
    # Ninja sees by itself that an output is as it was.  Make would run the command again and again while an output is
    # older than the source: there the source is compared with the stamp.
    set(made OUTPUT "${header}" "${images}")
    set(stamp)
    set(stamp_option)
    set(depfile "${folder}/${name}.d")
    if(NOT CMAKE_GENERATOR MATCHES "Ninja")
      set(stamp "${folder}/${name}.stamp")
      set(stamp_option "--stamp=${stamp}")
      set(made OUTPUT "${stamp}" BYPRODUCTS "${header}" "${images}")
    endif()
    add_custom_command(
      ${made}
      COMMAND "${TILEIRAS_EMBED}" "@${options}"
        "--header=${header}" "--source=${images}" ${stamp_option} "--depfile=${depfile}" "${source}"
      DEPENDS "${source}" "${options}" "${TILEIRAS_EMBED}"
      DEPFILE "${depfile}"
      COMMENT "Kernels of ${name}"
      VERBATIM)
    target_sources(${target} PRIVATE "${images}" "${header}" ${stamp})
  endforeach()
  target_include_directories(${target} ${visibility} "$<BUILD_INTERFACE:${folder}>")
  target_link_libraries(${target} ${visibility} tileiras::tileiras)
endfunction()
