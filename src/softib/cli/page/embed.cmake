# Writes view_page.cpp: functions that return the contents of the files of the page.
#
# cmake -D OUTPUT=FILE -D FOLDER=FOLDER -P embed.cmake
set(text "#include \"softib/cli/view_page.hpp\"\n\nnamespace softib::cli::page {\n")
foreach(file index.html view.css view.js)
  file(READ ${FOLDER}/${file} bytes HEX)
  string(REGEX REPLACE "(..)" "'\\\\x\\1'," bytes "${bytes}")
  string(REPLACE . _ name ${file})
  string(APPEND text "\nnamespace {\nconstexpr char k_${name}[] = {${bytes}};\n}\nstd::string_view ${name}() {\n"
         "  return {k_${name}, sizeof(k_${name})};\n}\n")
endforeach()
string(APPEND text "\n}  // namespace softib::cli::page\n")
# Only if it has changed, so that it is not compiled again.
set(before "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} before)
endif()
if(NOT before STREQUAL text)
  file(WRITE ${OUTPUT} "${text}")
endif()
