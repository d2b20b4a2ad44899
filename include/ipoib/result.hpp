// Expected refusals are values: a T, or an error that says what was refused and why.
#pragma once

#include <boost/system/result.hpp>
#include <stdexcept>
#include <string>
#include <utility>

namespace ipoib {

/// What went wrong, as one line for a person: what, why, and what to do about it.
struct Error {
  Error() = default;
  /// A constructor, since an aggregate can be made from an int alone, and then Result<int> could
  /// not tell a value from an error.
  Error(int number, std::string text) : code(number), message(std::move(text)) {}

  int code = 0;  ///< errno value, 0 where none applies
  std::string message;
};

[[noreturn]] inline void throw_exception_from_error(const Error& error,
                                                    const boost::source_location& /*where*/) {
  throw std::runtime_error(error.message);
}

template <class T>
using Result = boost::system::result<T, Error>;

}  // namespace ipoib
