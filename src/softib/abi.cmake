# libsoftib.so takes the place of the installed libibverbs.so.1 and libibumad.so.3: this reads what they export.
#
# As a script, after libsoftib.so is linked: cmake -D READELF=... -D SOFTIB=... -D LIBRARIES=... -P abi.cmake
# puts links with the names of the libraries to libsoftib.so into the folder abi/ beside it, where ld.so(8) finds
# them. A library with functions that libsoftib.so lacks gets none, since a program that needs them could not
# start. With -D CHECK_ONLY=ON it only fails if libsoftib.so calls a cancellation point.

# Sets `out` to the functions that a shared library exports by default: name@@version, or the name alone.
function(softib_read_exports library readelf out)
  execute_process(COMMAND ${readelf} --wide --dyn-syms ${library} OUTPUT_VARIABLE symbols
                  COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "I?FUNC +(GLOBAL|WEAK) +DEFAULT +[0-9]+ [^ \n]+" symbols "${symbols}")
  list(TRANSFORM symbols REPLACE ".* " "")
  list(FILTER symbols EXCLUDE REGEX "[^@]@[^@]") # older versions
  set(${out} ${symbols} PARENT_SCOPE)
endfunction()

# Sets `out` to the file by which programs find a library at run time (its SONAME), from that for the linker.
function(softib_runtime_name library readelf out)
  execute_process(COMMAND ${readelf} --wide --dynamic ${library} OUTPUT_VARIABLE entries
                  COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCH "\\(SONAME\\)[^\n]*\\[([^]]+)\\]" unused "${entries}")
  get_filename_component(folder ${library} DIRECTORY)
  set(${out} ${folder}/${CMAKE_MATCH_1} PARENT_SCOPE)
endfunction()

# Writes the version script of libsoftib.so. Functions of the libraries have the versions that they have there,
# for dlvsym(3), also those that only later versions of the libraries have: a program does not start if a version
# is missing that it needs. The others have none, so that references to any version bind to them.
function(softib_write_version_script script readelf)
  set(versions IBUMAD_1.3 IBUMAD_1.4)
  set(names_IBUMAD_1.3 umad_open_smi_port)
  set(names_IBUMAD_1.4 umad_get_smi_gsi_pairs umad_get_smi_gsi_pair_by_ca_name)
  foreach(library ${ARGN})
    softib_read_exports(${library} ${readelf} exports)
    foreach(export ${exports})
      string(REGEX MATCH "(.*)@@(.*)" unused ${export})
      list(APPEND versions ${CMAKE_MATCH_2})
      list(APPEND names_${CMAKE_MATCH_2} ${CMAKE_MATCH_1})
    endforeach()
  endforeach()
  list(REMOVE_DUPLICATES versions)
  set(text)
  foreach(version ${versions})
    list(REMOVE_DUPLICATES names_${version})
    list(JOIN names_${version} ";\n    " names)
    string(APPEND text "${version} {\n  global:\n    ${names};\n};\n")
  endforeach()
  # C++ names are not exported: template instances of the standard library, and what a sanitizer adds to them.
  string(APPEND text "SOFTIB {\n  local:\n    _Z*;\n    __odr_asan*;\n};\n")
  file(CONFIGURE OUTPUT ${script} CONTENT "${text}")
endfunction()

# Says, as a message of this kind, if a shared library calls a cancellation point (pthreads(7)) that the source does
# not replace.
function(softib_check_calls library readelf source kind)
  set(points accept accept4 aio_suspend clock_nanosleep close connect copy_file_range creat epoll_pwait epoll_wait
    eventfd_read eventfd_write fallocate fdatasync fsync getrandom lockf msync nanosleep open openat pause poll ppoll
    pread preadv pselect pthread_cond_clockwait pthread_cond_timedwait pthread_cond_wait pthread_join pwrite pwritev
    read readv recv recvfrom recvmmsg recvmsg select sem_clockwait sem_timedwait sem_wait send sendmmsg sendmsg sendto
    sigpause sigsuspend sigtimedwait sigwait sigwaitinfo sleep splice system tcdrain usleep wait wait3 wait4 waitid
    waitpid write writev)
  execute_process(COMMAND ${readelf} --wide --dyn-syms ${library} OUTPUT_VARIABLE symbols
                  COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL " UND [^@ \n]+" imports "${symbols}")
  file(READ ${source} replaced)
  foreach(import ${imports})
    string(REPLACE " UND " "" import ${import})
    # Those that check sizes have names of their own (__read_chk), and those for large files (open64).
    string(REGEX REPLACE "^__|_chk$|64$" "" point ${import})
    list(FIND points ${point} at)
    if(at GREATER -1 AND NOT replaced MATCHES "__wrap_${import}\\(")
      message(${kind} "${library} calls ${import}(), at which a thread can be cancelled: add it to ${source}")
    endif()
  endforeach()
endfunction()

if(CMAKE_SCRIPT_MODE_FILE)
  set(calls ${CMAKE_CURRENT_LIST_DIR}/verbs/uncancelled_calls.cpp)
  if(CHECK_ONLY)
    softib_check_calls(${SOFTIB} ${READELF} ${calls} FATAL_ERROR)
    return()
  endif()
  # Another C library may have others; programs run nevertheless.
  softib_check_calls(${SOFTIB} ${READELF} ${calls} WARNING)
  softib_read_exports(${SOFTIB} ${READELF} ours)
  get_filename_component(folder ${SOFTIB} DIRECTORY)
  file(REMOVE_RECURSE ${folder}/abi)
  file(MAKE_DIRECTORY ${folder}/abi)
  foreach(library ${LIBRARIES})
    get_filename_component(name ${library} NAME)
    softib_read_exports(${library} ${READELF} missing)
    list(REMOVE_ITEM missing ${ours})
    if(missing)
      message(NOTICE "libsoftib.so has no ${missing}: programs that open ${name} themselves find no emulated HCA")
    else()
      file(CREATE_LINK ../libsoftib.so ${folder}/abi/${name} SYMBOLIC)
    endif()
  endforeach()
endif()
