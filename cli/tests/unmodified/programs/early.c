// Clocks read before any constructor, in the constructor and the destructor of another library, and at exit. The same
// source is the library (with LIBRARY) and the program.
#include "check.h"

static void look(const char *where) {
  check_all(where);
  if (failures) _exit(1);
}

#ifdef LIBRARY
// The first of the constructors, and the last of the destructors.
__attribute__((constructor(101))) static void construct(void) { look("a library's constructor"); }
__attribute__((destructor(101))) static void destroy(void) { look("a library's destructor"); }
void touch_library(void) { look("a library's function"); }
#else
void touch_library(void);

static void before_all(int count, char **arguments, char **environment) {
  (void)count, (void)arguments, (void)environment;
  look("preinit_array");
}
__attribute__((section(".preinit_array"), used)) static void (*const first)(int, char **, char **) = before_all;
__attribute__((destructor(65000))) static void destroy(void) { look("the program's destructor"); }

static void at_exit(void) { look("atexit"); }

int main(void) {
  atexit(at_exit);
  touch_library();
  check_for("main", 20000000);
  return finish();
}
#endif
