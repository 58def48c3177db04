# find_package(scr): the target scr::scr, with the library for the MPI that find_package(MPI) has
# found, or finds now.

cmake_policy(VERSION 3.19)
include(CMakeFindDependencyMacro)
include(CheckSourceCompiles)

get_property(_scr_enabled GLOBAL PROPERTY ENABLED_LANGUAGES)
set(_scr_language)
foreach(_scr_one C CXX Fortran)
  if(_scr_one IN_LIST _scr_enabled AND NOT _scr_language)
    set(_scr_language ${_scr_one})
  endif()
endforeach()
if(NOT _scr_language)
  set(scr_FOUND FALSE)
  set(scr_NOT_FOUND_MESSAGE "the project has none of the languages C, CXX and Fortran")
  return()
endif()
if(NOT TARGET MPI::MPI_${_scr_language})
  find_dependency(MPI COMPONENTS ${_scr_language})
endif()

# Only Open MPI defines these, in its headers of C and of Fortran.
if(_scr_language STREQUAL "Fortran")
  set(_scr_source "program main\nimplicit none\ninclude 'mpif.h'\n\
print *, OMPI_MAJOR_VERSION\nend program\n")
  set(_scr_form SRC_EXT f90)
else()
  set(_scr_source "#include <mpi.h>\n#ifndef OPEN_MPI\n#error another MPI\n#endif\n\
int main(void) { return 0; }\n")
  set(_scr_form)
endif()
# Under a name of the MPI: with another one it is asked anew.
set(_scr_wanted ${MPI_${_scr_language}_LIBRARIES} ${MPI_${_scr_language}_INCLUDE_DIRS})
string(SHA256 _scr_wanted "${_scr_wanted}")
string(SUBSTRING ${_scr_wanted} 0 8 _scr_wanted)
set(_scr_kept_libraries ${CMAKE_REQUIRED_LIBRARIES})
set(_scr_kept_quiet ${CMAKE_REQUIRED_QUIET})
set(CMAKE_REQUIRED_LIBRARIES MPI::MPI_${_scr_language})
set(CMAKE_REQUIRED_QUIET TRUE)
check_source_compiles(${_scr_language} "${_scr_source}" SCR_IS_OPENMPI_${_scr_wanted}
                      ${_scr_form})
set(CMAKE_REQUIRED_LIBRARIES ${_scr_kept_libraries})
set(CMAKE_REQUIRED_QUIET ${_scr_kept_quiet})
if(SCR_IS_OPENMPI_${_scr_wanted})
  set(scr_MPI openmpi)
else()
  set(scr_MPI mpich)
endif()

get_filename_component(_scr_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(_scr_library "${_scr_prefix}/lib/scr/${scr_MPI}/libscr.so")
if(NOT EXISTS "${_scr_library}")
  set(scr_FOUND FALSE)
  set(scr_NOT_FOUND_MESSAGE "there is no ${_scr_library}: scr was not built for this MPI")
  return()
endif()
if(NOT TARGET scr::scr)
  add_library(scr::scr SHARED IMPORTED)
  set_target_properties(scr::scr PROPERTIES
    IMPORTED_LOCATION "${_scr_library}"
    IMPORTED_SONAME libscr.so
    INTERFACE_INCLUDE_DIRECTORIES "${_scr_prefix}/include"
    # Each MPI has a library of this name: the program has to find its own, whatever
    # LD_LIBRARY_PATH says. RPATH comes before it, RUNPATH after.
    INTERFACE_LINK_OPTIONS "LINKER:--disable-new-dtags"
    INTERFACE_LINK_LIBRARIES MPI::MPI_${_scr_language})
endif()
set(scr_FOUND TRUE)
