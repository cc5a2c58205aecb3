//===- CheckedOptions.h - options that say what they expect -----*- C++ -*-===//
//
// Part of the mpcomm project, under the Apache License v2.0 with LLVM
// Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass options are parsed by LLVM's command line, which writes errors to
// standard error at once, in words of its own. Checked options look at the text
// first: an unknown name, or a value that an option does not take, is an error
// that names what is expected, and what is close to it.
//
//===----------------------------------------------------------------------===//

#ifndef MPCOMM_PIPELINES_CHECKEDOPTIONS_H
#define MPCOMM_PIPELINES_CHECKEDOPTIONS_H

#include "mlir/Pass/PassOptions.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include <functional>
#include <optional>
#include <string>
#include <type_traits>

namespace mpcomm {

/// The one of `names` that `name` is close to, as in ", did you mean 'mesh'?";
/// empty if none is.
std::string didYouMean(llvm::StringRef name,
                       llvm::ArrayRef<llvm::StringRef> names);

/// What an option expects instead of a value, and what may be meant.
struct Refusal {
  std::string expected, hint = "";
};

/// Nothing if the option takes the value.
using OptionCheck = std::function<std::optional<Refusal>(llvm::StringRef)>;

OptionCheck isInteger();
OptionCheck isNumber();
OptionCheck isBool();
OptionCheck isOneOf(llvm::SmallVector<llvm::StringRef> values);

/// What an option of type T takes; `parser` is that of a cl::opt.
template <typename T, typename Parser>
OptionCheck makeCheck(const Parser &parser) {
  if constexpr (std::is_same_v<T, bool>)
    return isBool();
  else if constexpr (std::is_integral_v<T>)
    return [](llvm::StringRef text) -> std::optional<Refusal> {
      if (T value; llvm::to_integer(text, value, 0))
        return std::nullopt;
      return Refusal{std::is_signed_v<T> ? "an integer" : "a natural number"};
    };
  else if constexpr (std::is_floating_point_v<T>)
    return isNumber();
  else if constexpr (std::is_enum_v<T>) {
    llvm::SmallVector<llvm::StringRef> values;
    for (unsigned i = 0; i < parser.getNumOptions(); ++i)
      values.push_back(parser.getOption(i));
    return isOneOf(std::move(values));
  } else
    return {};
}

/// Base of the options of a pipeline.
class CheckedOptions : public virtual mlir::detail::PassOptions {
public:
  /// As parseFromString; on failure, `reason` says what is wrong.
  llvm::LogicalResult parse(llvm::StringRef text, std::string &reason);

  bool has(llvm::StringRef name) const { return checks.contains(name); }

protected:
  /// An option of which values are checked by their type.
  template <typename T> struct Option : mlir::detail::PassOptions::Option<T> {
    using Base = mlir::detail::PassOptions::Option<T>;
    using Base::operator=;

    template <typename... Args>
    Option(CheckedOptions &parent, llvm::StringRef name, Args &&...args)
        : Base(parent, name, std::forward<Args>(args)...) {
      parent.checks[name] = makeCheck<T>(this->getParser());
    }
  };

  template <typename T>
  struct ListOption : mlir::detail::PassOptions::ListOption<T> {
    using Base = mlir::detail::PassOptions::ListOption<T>;
    using Base::operator=;

    template <typename... Args>
    ListOption(CheckedOptions &parent, llvm::StringRef name, Args &&...args)
        : Base(parent, name, std::forward<Args>(args)...) {
      if constexpr (std::is_integral_v<T>)
        parent.checks[name] =
            [](llvm::StringRef list) -> std::optional<Refusal> {
          for (llvm::StringRef item : llvm::split(list, ','))
            if (isInteger()(item))
              return Refusal{"integers between commas"};
          return std::nullopt;
        };
      else
        parent.checks[name] = {};
    }
  };

private:
  /// By name, in the order of declaration.
  llvm::MapVector<llvm::StringRef, OptionCheck> checks;
};

} // namespace mpcomm

#endif // MPCOMM_PIPELINES_CHECKEDOPTIONS_H
