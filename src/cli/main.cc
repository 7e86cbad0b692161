#include <cstdio>

int main() {
  std::fputs("quern: no subcommand yet\n", stderr);
  return 2;
}
