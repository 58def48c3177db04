# find_package(scr): the target scr::scr. The library takes the MPI that the program brings: link
# with MPI::MPI_C, MPI::MPI_CXX or MPI::MPI_Fortran as without it.

get_filename_component(_scr_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(_scr_library "${_scr_prefix}/lib/libscr.so")
if(NOT EXISTS "${_scr_library}")
  set(scr_FOUND FALSE)
  set(scr_NOT_FOUND_MESSAGE "there is no ${_scr_library}")
  return()
endif()
if(NOT TARGET scr::scr)
  add_library(scr::scr SHARED IMPORTED)
  set_target_properties(scr::scr PROPERTIES
    IMPORTED_LOCATION "${_scr_library}"
    IMPORTED_SONAME libscr.so
    INTERFACE_INCLUDE_DIRECTORIES "${_scr_prefix}/include")
endif()
set(scr_FOUND TRUE)
