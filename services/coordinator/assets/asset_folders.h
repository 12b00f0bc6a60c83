// Where sets of assets are kept (asset_store.h), without the rules about them. On the disk:
//
//   <data dir>/assets/<model>/<checksum of 8 hexadecimal digits>/   a set: its files, and FILES
//   <data dir>/assets/<model>/CURRENT          the checksum of the model's own set, sealed
//   <data dir>/assets/.uploads/<model>.<checksum>/   what has arrived of a set

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dslide::coordinator {

struct AssetSetId {
  std::string model;
  uint32_t checksum = 0;  // of the set's list of files (core/system/file_list.h)
  friend auto operator<=>(const AssetSetId&, const AssetSetId&) = default;
};

// What is called how on the disk.
inline constexpr char kAssetsFolder[] = "assets";
inline constexpr char kUploadsFolder[] = ".uploads";
inline constexpr char kCurrentAssets[] = "CURRENT";
inline constexpr char kCurrentAssetsWord[] = "dslide model assets";  // its seal
// "0badcafe"
std::string AssetDigits(uint32_t checksum);

// Names are checked by the caller. Errors: those of SystemError(), unless a line says otherwise.
// Not thread-safe.
class AssetFolders {
 public:
  enum class Place { kUpload, kKept };
  struct Content {
    std::set<AssetSetId> kept;
    std::map<std::string, uint32_t> current;  // model -> the checksum of its set
  };

  // Of a directory, which is made when it is missing.
  static std::unique_ptr<AssetFolders> OnDisk(const std::string& data_dir);
  static std::unique_ptr<AssetFolders> InMemory();
  virtual ~AssetFolders() = default;

  // What an earlier process has kept; its uploads are gone. Errors: DataLoss naming a CURRENT that
  // is damaged; FailedPrecondition when another version has written it.
  virtual absl::StatusOr<Content> Load() = 0;

  // Puts a piece into a file of an upload; both are made when they are missing.
  virtual absl::Status Write(const AssetSetId& id, const std::string& file, int64_t offset,
                             absl::string_view piece) = 0;
  // Makes an upload a kept set, in the place of one with that id. Durable when it returns.
  virtual absl::Status Keep(const AssetSetId& id) = 0;
  // At most `most` bytes; "" at the end. Errors: NotFound, too.
  virtual absl::StatusOr<std::string> Read(Place place, const AssetSetId& id,
                                           const std::string& file, int64_t offset,
                                           int64_t most) const = 0;
  // Fine when it is not there.
  virtual absl::Status Remove(Place place, const AssetSetId& id) = 0;

  // Durable when they return.
  virtual absl::Status SetCurrent(const AssetSetId& id) = 0;
  virtual absl::Status ClearCurrent(const std::string& model) = 0;
};

}  // namespace dslide::coordinator
