// What `--help` says of an option.

#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "absl/strings/str_cat.h"

namespace dslide {

// What follows an option's names has one form: each version of the library has its own.
class OptionFormatter final : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    std::string text;
    if (option->get_type_size() != 0) {
      if (!option->get_type_name().empty()) absl::StrAppend(&text, " ", option->get_type_name());
      if (!option->get_default_str().empty())
        absl::StrAppend(&text, "=", option->get_default_str());
      if (option->get_expected_max() == CLI::detail::expected_max_vector_size) text += " ...";
      if (option->get_required()) text += " REQUIRED";
    }
    if (option->get_envname().empty()) return text;
    return absl::StrCat(text, " (Env:", option->get_envname(), ")");
  }
};

}  // namespace dslide
