# find_package(counterpoint [COMPONENTS http testing]): targets for the shared libraries of Counterpoint.
#
#     counterpoint::counterpoint    the core
#     counterpoint::http            the profiles of the running program over HTTP; with the core
#     counterpoint::testing         tests, benchmarks, and profiles of them; with the core
#
# Without COMPONENTS, there is a target for each library that is installed. "make install" fills in the words between "@".
# All paths are relative to this file, so what is installed may be moved.

# The real path: if /lib is a link to /usr/lib, the headers are not in /include.
get_filename_component(_counterpoint_lib "${CMAKE_CURRENT_LIST_FILE}" REALPATH)
get_filename_component(_counterpoint_lib "${_counterpoint_lib}/../../.." ABSOLUTE)
get_filename_component(_counterpoint_include "${_counterpoint_lib}/@include_from_lib@" ABSOLUTE)

foreach(_counterpoint_target counterpoint http testing)
    set(_counterpoint_name counterpoint)
    if(NOT _counterpoint_target STREQUAL counterpoint)
        set(_counterpoint_name counterpoint-${_counterpoint_target})
    endif()
    set(_counterpoint_file "${_counterpoint_lib}/lib${_counterpoint_name}.so.@soversion@")
    if(EXISTS "${_counterpoint_file}" AND NOT TARGET counterpoint::${_counterpoint_target})
        add_library(counterpoint::${_counterpoint_target} SHARED IMPORTED)
        set_target_properties(counterpoint::${_counterpoint_target} PROPERTIES
            IMPORTED_LOCATION "${_counterpoint_file}"
            IMPORTED_SONAME "lib${_counterpoint_name}.so.@soversion@"
            INTERFACE_INCLUDE_DIRECTORIES "${_counterpoint_include}")
        if(NOT _counterpoint_target STREQUAL counterpoint)
            set_target_properties(counterpoint::${_counterpoint_target} PROPERTIES
                INTERFACE_LINK_LIBRARIES counterpoint::counterpoint)
        endif()
    endif()
    if(TARGET counterpoint::${_counterpoint_target})
        set(counterpoint_${_counterpoint_target}_FOUND TRUE)
    endif()
endforeach()

# Whether all that was asked for is there.
foreach(_counterpoint_target counterpoint ${counterpoint_FIND_COMPONENTS})
    if(NOT counterpoint_${_counterpoint_target}_FOUND)
        if(_counterpoint_target STREQUAL counterpoint OR counterpoint_FIND_REQUIRED_${_counterpoint_target})
            set(counterpoint_FOUND FALSE)
            set(counterpoint_NOT_FOUND_MESSAGE
                "Counterpoint has no library \"${_counterpoint_target}\" in ${_counterpoint_lib}.")
        endif()
    endif()
endforeach()

unset(_counterpoint_file)
unset(_counterpoint_include)
unset(_counterpoint_lib)
unset(_counterpoint_name)
unset(_counterpoint_target)
