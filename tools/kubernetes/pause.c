/* Keeps the namespaces of a pod alive, until it is told to end. */

#include <signal.h>
#include <unistd.h>

int main(void) {
  signal(SIGTERM, _exit);
  signal(SIGINT, _exit);
  signal(SIGCHLD, SIG_IGN); /* orphans of the pod leave nothing behind */
  for (;;) pause();
}
