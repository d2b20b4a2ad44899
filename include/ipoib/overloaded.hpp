// One lambda for each alternative of a variant: std::visit does not compile if one is missing.
#pragma once

#include <concepts>
#include <type_traits>

namespace ipoib {

template <class... Lambdas>
struct Overloaded : Lambdas... {
  using Lambdas::operator()...;
};
template <class... Lambdas>
Overloaded(Lambdas...) -> Overloaded<Lambdas...>;  // clang 16 does not deduce it for an aggregate

/// For a lambda that serves several alternatives, each of them named: `[](OneOf<A, B> auto& s) {}`.
template <class T, class... Alternatives>
concept OneOf = (std::same_as<std::remove_const_t<T>, Alternatives> || ...);

}  // namespace ipoib
