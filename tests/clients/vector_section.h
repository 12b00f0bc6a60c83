// One section of what dslide_client_vectors prints.

#pragma once

#include <cstdint>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace dslide {

class VectorSection {
 public:
  using Json = nlohmann::ordered_json;

  VectorSection(const char* name, Json settings) {
    header_["section"] = name;
    header_["settings"] = std::move(settings);
    header_["arrays"] = Json::array();
  }

  // type: "<f4", "<u1", ...
  template <typename T>
  void Add(const char* name, const char* type, std::vector<int64_t> shape,
           const std::vector<T>& values) {
    header_["arrays"].push_back({name, type, shape});
    bytes_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  }

  // To stdout.
  void Print() const { std::cout << header_.dump() << '\n' << bytes_; }

 private:
  Json header_;
  std::string bytes_;
};

}  // namespace dslide
