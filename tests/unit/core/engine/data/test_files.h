// Files for the tests of the data layer: a temporary folder and compressed copies.

#pragma once

#include <archive.h>
#include <archive_entry.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace dslide {

// A folder that vanishes with the object.
class TempDir {
 public:
  TempDir() {
    std::string name = testing::TempDir() + "/dslide-data-XXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline void WriteFile(const std::string& path, const std::string& content) {
  std::ofstream out(path, std::ios::binary);
  out << content;
  ASSERT_TRUE(out.good()) << path;
}

inline std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream content;
  content << in.rdbuf();
  return content.str();
}

// Writes `content` with libarchive's filter: "gzip", "xz", "zstd" or "lz4".
inline void WriteCompressed(const std::string& path, const std::string& filter,
                            const std::string& content) {
  archive* out = archive_write_new();
  ASSERT_EQ(archive_write_add_filter_by_name(out, filter.c_str()), ARCHIVE_OK);
  ASSERT_EQ(archive_write_set_format_raw(out), ARCHIVE_OK);
  ASSERT_EQ(archive_write_open_filename(out, path.c_str()), ARCHIVE_OK);
  archive_entry* entry = archive_entry_new();
  archive_entry_set_filetype(entry, AE_IFREG);
  ASSERT_EQ(archive_write_header(out, entry), ARCHIVE_OK);
  ASSERT_EQ(archive_write_data(out, content.data(), content.size()),
            static_cast<la_ssize_t>(content.size()));
  archive_entry_free(entry);
  ASSERT_EQ(archive_write_close(out), ARCHIVE_OK);
  archive_write_free(out);
}

}  // namespace dslide
