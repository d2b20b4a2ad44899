# Makes the comments of ibarp.h those of Doxygen: before a declaration, and behind a member.
s|@\([A-Za-z]\)|\\@\1|g
1s|^/\*$|/** @file|
# The table of errors has two columns.
/The important values:$/s|$|\n@verbatim|
/^ \* After an error of the last/s|^|@endverbatim\n|
s|^/\* |/** |
s|^\([^/]*[;,{}0-9xu]\) */\* |\1 /**< |
