#include "bench/common/spinners.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

namespace dslide::bench {

Spinners::Spinners() {
  const pid_t parent = getpid();
  for (unsigned i = 0; i < std::thread::hardware_concurrency(); ++i) {
    const pid_t pid = fork();
    if (pid < 0) return;  // a latency without them is higher, not wrong
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(0);
      const sched_param none = {};
      setpriority(PRIO_PROCESS, 0, 19);
      sched_setscheduler(0, SCHED_IDLE, &none);
      for (volatile unsigned turns = 0;;) {
        turns = turns + 1;
      }
    }
    pids_.push_back(pid);
  }
}

Spinners::~Spinners() {
  for (const pid_t pid : pids_) kill(pid, SIGKILL);
  for (const pid_t pid : pids_) waitpid(pid, nullptr, 0);
}

void Spinners::Pause() {
  for (const pid_t pid : pids_) kill(pid, SIGSTOP);
}

void Spinners::Resume() {
  for (const pid_t pid : pids_) kill(pid, SIGCONT);
}

}  // namespace dslide::bench
