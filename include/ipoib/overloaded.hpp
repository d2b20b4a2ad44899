// A visitor with one lambda per alternative of a variant: a missing one does not compile.
#pragma once

namespace ipoib {

template <class... Lambdas>
struct Overloaded : Lambdas... {
  using Lambdas::operator()...;
};
template <class... Lambdas>
Overloaded(Lambdas...) -> Overloaded<Lambdas...>;  // clang 16 does not deduce it for an aggregate

}  // namespace ipoib
