/* Profiles whose content a test writes itself, as the text of protocol buffers. */
#ifndef COUNTERPOINT_TESTS_PROFILE_TEXT_H
#define COUNTERPOINT_TESTS_PROFILE_TEXT_H

#include <stdlib.h>

#include "test.h"

/* Encodes the profile into NAME in the test's directory, by the pprof project's own profile.proto. */
static inline void encode_profile(const char *name, const char *text)
{
    test_write_file("profile.txt", text);
    free(test_command(NULL,
                      "file=$(dpkg -L golang-github-google-pprof-dev | grep '/profile\\.proto$') && cd %s && "
                      "protoc --encode=perftools.profiles.Profile -I ${file%%/*} $file < profile.txt > '%s'",
                      test_dir(), name));
}

#endif
