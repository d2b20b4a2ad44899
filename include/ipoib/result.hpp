// Expected failures are values: Result<T> is a T or an Error.
#pragma once

#include <boost/system/result.hpp>
#include <stdexcept>
#include <string>
#include <utility>

namespace ipoib {

/// An error message of one line: what failed, why, and what the user can do.
struct Error {
  Error() = default;
  /// A constructor, because an aggregate converts from an int, which is ambiguous in Result<int>.
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
