#include "bench/common/machine.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dslide::bench {
namespace {

double Seconds(const timespec& time) { return double(time.tv_sec) + 1e-9 * double(time.tv_nsec); }

double MonotonicSeconds() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return Seconds(now);
}

// CPU seconds of everybody since the machine started, waiting for disks and stolen time left out.
double BusySeconds() {
  std::ifstream file("/proc/stat");
  std::string word;
  file >> word;
  double user = 0;
  double nice = 0;
  double system = 0;
  double idle = 0;
  double wait = 0;
  double irq = 0;
  double soft_irq = 0;
  file >> user >> nice >> system >> idle >> wait >> irq >> soft_irq;
  return (user + nice + system + irq + soft_irq) / double(sysconf(_SC_CLK_TCK));
}

}  // namespace

std::string CpuDescription() {
  std::ifstream file("/proc/cpuinfo");
  std::string model = "unknown CPU";
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    const size_t colon = line.find(": ");
    if (colon != std::string::npos) model = line.substr(colon + 2);
    break;
  }
  return absl::StrCat(model, ", ", std::thread::hardware_concurrency(), " CPUs");
}

std::string CongestionControl() {
  std::ifstream file("/proc/sys/net/ipv4/tcp_congestion_control");
  std::string name;
  return file >> name ? name : "unknown";
}

double CpuSeconds(pid_t pid) {
  clockid_t clock = CLOCK_PROCESS_CPUTIME_ID;
  if (pid != 0 && clock_getcpuclockid(pid, &clock) != 0) return 0;
  timespec used = {};
  return clock_gettime(clock, &used) == 0 ? Seconds(used) : 0;
}

ForeignLoadMeter::ForeignLoadMeter(std::vector<pid_t> own)
    : own_(std::move(own)), start_seconds_(MonotonicSeconds()), start_foreign_(Foreign()) {}

double ForeignLoadMeter::Foreign() const {
  double own = CpuSeconds(0);
  for (const pid_t pid : own_) own += CpuSeconds(pid);
  return BusySeconds() - own;
}

double ForeignLoadMeter::Load() const {
  const double seconds = MonotonicSeconds() - start_seconds_;
  return seconds <= 0 ? 0 : std::max(0.0, (Foreign() - start_foreign_) / seconds);
}

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
      for (volatile unsigned turns = 0;; turns = turns + 1) {
      }
    }
    pids_.push_back(pid);
  }
}

Spinners::~Spinners() {
  for (const pid_t pid : pids_) kill(pid, SIGKILL);
  for (const pid_t pid : pids_) waitpid(pid, nullptr, 0);
}

}  // namespace dslide::bench
