// One lambda for each alternative of a variant: what is missing does not compile.
#pragma once

namespace ipoib {

template <class... Lambdas>
struct Overloaded : Lambdas... {
  using Lambdas::operator()...;
};
template <class... Lambdas>
Overloaded(Lambdas...) -> Overloaded<Lambdas...>;  // clang 16 does not deduce it for an aggregate

}  // namespace ipoib
