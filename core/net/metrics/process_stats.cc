#include "core/net/metrics/process_stats.h"

#include <dirent.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace dslide {
namespace {

// Fields of /proc/self/stat after the command name, which may itself hold blanks; index 0 is field
// 3 of proc(5).
std::vector<std::string> StatFields() {
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  const size_t command_end = line.rfind(')');
  if (command_end == std::string::npos) return {};
  std::istringstream rest(line.substr(command_end + 1));
  std::vector<std::string> fields;
  for (std::string field; rest >> field;) fields.push_back(field);
  return fields;
}

double StatField(size_t number) {
  const std::vector<std::string> fields = StatFields();
  const size_t index = number - 3;
  return index < fields.size() ? std::stod(fields[index]) : 0.0;
}

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

double BootTimeSeconds() {
  std::ifstream file("/proc/stat");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("btime ", 0) == 0) return std::stod(line.substr(6));
  }
  return 0.0;
}

}  // namespace

double ProcessCpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return Seconds(usage.ru_utime) + Seconds(usage.ru_stime);
}

double ProcessResidentBytes() { return StatField(24) * static_cast<double>(sysconf(_SC_PAGESIZE)); }

double ProcessPeakResidentBytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024.0;
}

double ProcessVirtualBytes() { return StatField(23); }

double ProcessOpenFiles() {
  DIR* const directory = opendir("/proc/self/fd");
  if (directory == nullptr) return 0.0;
  double count = 0.0;
  while (readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count - 3.0;  // ".", ".." and the directory itself
}

double ProcessMaxFiles() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<double>(limit.rlim_cur);
}

double ProcessStartTimeSeconds() {
  return BootTimeSeconds() + StatField(22) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace dslide
