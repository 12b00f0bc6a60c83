#include "client/cli/console/stdin_end.h"

#include <poll.h>
#include <unistd.h>

namespace dslide::cli {

bool StdinEnded() {
  pollfd input = {.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  while (poll(&input, 1, 0) == 1) {
    char dropped[4096];
    if (read(STDIN_FILENO, dropped, sizeof(dropped)) <= 0) return true;
  }
  return false;
}

}  // namespace dslide::cli
