#include "services/common/signal_waiter.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>

namespace dslide {
namespace {

constexpr char kTrigger = 't';
constexpr char kQuit = 'q';

sigset_t StopSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

void Send(int fd, char what) {
  while (::write(fd, &what, 1) < 0 && errno == EINTR) {
  }
}

}  // namespace

SignalWaiter::SignalWaiter() {
  std::signal(SIGPIPE, SIG_IGN);
  const sigset_t set = StopSignals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  if (::pipe2(pipe_, O_CLOEXEC) != 0) {
    std::perror("pipe2");
    std::abort();
  }
  thread_ = std::thread([this] { Run(); });
}

SignalWaiter::~SignalWaiter() {
  Send(pipe_[1], kQuit);
  thread_.join();
  ::close(pipe_[0]);
  ::close(pipe_[1]);
}

int SignalWaiter::Wait() {
  first_.WaitForNotification();
  return signal_;
}

void SignalWaiter::Trigger() { Send(pipe_[1], kTrigger); }

void SignalWaiter::Run() {
  const sigset_t set = StopSignals();
  const int signals = ::signalfd(-1, &set, SFD_CLOEXEC);
  pollfd sources[2] = {{signals, POLLIN, 0}, {pipe_[0], POLLIN, 0}};
  while (true) {
    if (::poll(sources, 2, -1) < 0) continue;  // EINTR
    if ((sources[0].revents & POLLIN) != 0) {
      signalfd_siginfo info{};
      if (::read(signals, &info, sizeof(info)) != sizeof(info)) continue;
      const int number = static_cast<int>(info.ssi_signo);
      if (first_.HasBeenNotified()) ::_exit(128 + number);
      signal_ = number;
      first_.Notify();
    }
    if ((sources[1].revents & POLLIN) != 0) {
      char what = 0;
      if (::read(pipe_[0], &what, 1) != 1) continue;
      if (what == kQuit) break;
      if (!first_.HasBeenNotified()) first_.Notify();
    }
  }
  ::close(signals);
}

}  // namespace dslide
