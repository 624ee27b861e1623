"""A closed model: a finite system of ordinary differential equations, with its right-hand side and its readings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from aimtheory.arrays import FloatArray, real_array
from aimtheory.dynamics.branch import Branch
from aimtheory.dynamics.coupling_values import CouplingValues, Evaluation, OrderParameters
from aimtheory.errors import InputError
from aimtheory.frozen import ByValue
from aimtheory.hierarchy import Closure, Views, closure, views
from aimtheory.hierarchy.closed_system import NO_TRUNCATION
from aimtheory.hierarchy.closures import ClosedSystem, ClosureProblem
from aimtheory.hierarchy.initial_moments import ParameterMatrices
from aimtheory.hierarchy.moments import check_degree, check_model
from aimtheory.hierarchy.observables import Observable, observable
from aimtheory.model import AttentionModel
from aimtheory.words import Word

if TYPE_CHECKING:
    from aimtheory.spectra import JointLaw


@dataclass(frozen=True, eq=False)
class ClosedModel(ByValue):
    """The moments of a model under a closure of degree M: dy/dt = rhs(t, y) from y(0) = ``initial``.

    For any integrator: ``scipy.integrate.solve_ivp(closed.rhs, (0, 2), closed.initial)``; ``read`` gives observables
    of states. A pure function: what it gives at a state depends on the state alone, and for forms that are not centred
    on the ``branch`` of their means.

    >>> import aimtheory as aim
    >>> closed = aim.close(aim.models.load("exact-linear"), degree=3, closure="zero")
    >>> closed.rhs(0.0, closed.initial).shape == closed.initial.shape
    True
    >>> float(closed.read("t_1", closed.initial))
    0.5
    """

    model: AttentionModel
    closure: Closure
    degree: int | None
    """None where it was left out, as nothing is truncated."""
    initial_law: JointLaw | ParameterMatrices | None = None
    initial_mean: FloatArray | None = None
    choice: str | None = None
    """Which closure ``auto`` took, and why."""

    @cached_property
    def views(self) -> Views:
        """The letters in which words are read."""
        return views(self.model)

    @cached_property
    def system(self) -> ClosedSystem:
        """The state and its drift, linear in the couplings."""
        return self.closure.close(_problem(self))

    @cached_property
    def second_rule(self) -> ClosedModel | None:
        """The same model with another quadrature in its closure; None where the closure has no quadrature."""
        other = self.closure.second_rule()
        if other is None:
            return None
        second = replace(self, closure=other)
        # Cached properties that do not depend on the closure.
        second.__dict__.update(views=self.views, couplings=self.couplings)
        return second

    @cached_property
    def couplings(self) -> CouplingValues:
        """The couplings as functions of the state."""
        return CouplingValues(self.model, self.views, self.initial_mean)

    @property
    def initial(self) -> FloatArray:
        """The state at time zero, a flat float64 array of its own."""
        return self.system.initial.copy()

    @cached_property
    def initial_branch(self) -> Branch | None:
        """The branch on which the fast flow from m(0) settles at time zero; None where no mean is slaved."""
        return self.order_parameters(self.system.initial).branch

    def moments(self, words: Sequence[Word], state: FloatArray) -> FloatArray:
        """Normalized traces of words at a state, shape (len(words),)."""
        return self.system.moments(words, state)

    def order_parameters(self, state: FloatArray, branch: Branch | None = None) -> OrderParameters:
        """Means and overlaps at a state."""
        return self.couplings.order_parameters(lambda words: self.system.moments(words, state), branch)

    def evaluate(self, state: FloatArray, branch: Branch | None) -> tuple[FloatArray, Evaluation]:
        """The time derivative of a state on a branch, with the couplings and what was met on the way."""
        found = self.couplings.evaluate(lambda words: self.system.moments(words, state), branch)
        return self.system.drift(found.couplings, state), found

    def branch(self, state: ArrayLike, branch: Branch | None = None) -> Branch | None:
        """The branch of means at a state, followed from ``branch`` (default: ``initial_branch``) along a straight line
        of overlaps; None where no mean is slaved.

        Raises ``AssumptionError`` when it ends on the way.
        """
        return self.order_parameters(self._state(state), branch or self.initial_branch).branch

    def rhs(self, time: float, state: ArrayLike, branch: Branch | None = None) -> FloatArray:  # noqa: ARG002
        """dy/dt at a state y, shape (size,); the equations do not depend on time.

        Means of forms that are not centred are slaved to the overlaps on ``branch``, by default that of time zero
        followed along a straight line of overlaps; far from the start, where several means attract, carry the branch:
        ``branch = closed.branch(y, branch)``. Exact but for the cubature of the potential and Newton's method to
        rounding. Raises ``InputError`` for a state of another size, ``NumericsError`` for one that is not finite, and
        ``AssumptionError`` where the fast-slow limit does not hold.
        """
        return self.evaluate(self._state(state), branch or self.initial_branch)[0]

    def read(self, item: str | Word | Observable, state: ArrayLike, branch: Branch | None = None) -> FloatArray:
        """An observable, by name or word, at a state (size,) or at each of several, (..., size), shape (...).

        ``branch`` as for ``rhs``. Raises ``InputError`` for an unknown name and for a word that the state does not
        hold.
        """
        chosen = observable(item, self.model, self.views)
        states = np.asarray(state, dtype=np.float64)
        flat = states.reshape(-1, states.shape[-1]) if states.ndim else states.reshape(1, 1)
        known = branch or self.initial_branch
        values = [self.reading(self._state(one), known).value(chosen) for one in flat]
        return np.array(values).reshape(states.shape[:-1])

    def reading(self, state: FloatArray, branch: Branch | None) -> StateReading:
        """A state on a branch, as observables read it."""
        return StateReading(self, state, branch)

    def holds(self, chosen: Observable) -> bool:
        """True when the state holds the words of the observable."""
        try:
            self.system.moments(chosen.words, self.system.initial)
        except InputError:
            return False
        return True

    def _state(self, state: ArrayLike) -> FloatArray:
        array = np.asarray(state, dtype=np.float64)
        size = self.system.initial.shape
        if array.shape != size:
            raise InputError(f"a state has shape {array.shape}; the states of this closed model have shape {size}")
        return array

    def __repr__(self) -> str:
        size = len(self.system.initial)
        return f"ClosedModel({self.model.name}, closure={self.closure.name!r}, degree={self.degree}, {size} variables)"


@dataclass(frozen=True, eq=False)
class StateReading:
    """One state of a closed model on one branch, as observables read it."""

    closed: ClosedModel
    state: FloatArray
    branch: Branch | None

    @cached_property
    def order(self) -> OrderParameters:
        """Means and overlaps at the state."""
        return self.closed.couplings.order_parameters(self.moments, self.branch)

    @cached_property
    def _known(self) -> dict[Word, float]:
        return {}

    def moments(self, words: Sequence[Word]) -> FloatArray:
        """Normalized traces of words, shape (len(words),); each is computed once."""
        missing = [word for word in dict.fromkeys(words) if word not in self._known]
        if missing:
            self._known.update(zip(missing, self.closed.system.moments(missing, self.state).tolist(), strict=True))
        return np.array([self._known[word] for word in words], dtype=np.float64)

    def mean(self, k: int) -> float:
        """m_k; k counts from 0."""
        return float(self.order.mean[k])

    def loss(self) -> float:
        """Phi."""
        return self.closed.couplings.loss(self.order)

    def value(self, chosen: Observable) -> float:
        """An observable as a float."""
        return float(chosen.evaluate(self))


def read_states(
    closed: ClosedModel, chosen: Iterable[Observable], states: FloatArray, branches: Sequence[Branch | None]
) -> dict[str, FloatArray]:
    """Observables at states (n, size), each on its branch, by name, shape (n,)."""
    chosen = tuple(chosen)
    readings = [closed.reading(state, branch) for state, branch in zip(states, branches, strict=True)]
    words = tuple(dict.fromkeys(word for one in chosen for word in one.words))
    for reading in readings:
        reading.moments(words)  # all at once: an exact state solves one equation for any number of words
    return {one.name: np.array([reading.value(one) for reading in readings]) for one in chosen}


def close(
    model: AttentionModel,
    *,
    degree: int | None = None,
    closure: str | Closure = "auto",
    initial: JointLaw | ParameterMatrices | None = None,
    initial_mean: ArrayLike | None = None,
    **closure_options: object,
) -> ClosedModel:
    """Close a model's hierarchy at degree M: a finite system dy/dt = rhs(t, y), for an integrator of your own.

    Arguments as for ``solve``, which integrates the same system. ``closed.initial`` is y(0), ``closed.rhs(t, y)`` the
    right-hand side and ``closed.read("p_12", y)`` an observable; ``closed.choice`` says which closure ``auto`` took.
    Raises ``InputError`` for a bad closure or degree, and for one left out where it is needed.

    >>> import aimtheory as aim
    >>> from scipy.integrate import solve_ivp
    >>> closed = aim.close(aim.models.load("tied-softmax"))
    >>> path = solve_ivp(closed.rhs, (0, 1), closed.initial, rtol=1e-8)
    >>> round(float(closed.read("p_12", path.y[:, -1])), 3)
    0.221
    """
    check_model(model)
    if isinstance(closure, Closure) and closure_options:
        raise InputError(
            f"options {', '.join(closure_options)} go with a closure's name; a Closure already has its own"
        )
    order = None if degree is None else check_degree(degree)
    closed = ClosedModel(model, _closure(closure, closure_options), order, initial, _initial_mean(model, initial_mean))
    problem = _problem(closed)
    chosen, choice = closed.closure.resolve(problem), closed.closure.choice(problem)
    if order is None and chosen.needs_degree:
        raise InputError(
            f"closure {chosen.name!r} truncates the hierarchy, and no degree is given; give one, such as degree=11"
            + (f" ({choice})" if choice else "")
        )
    return closed if chosen is closed.closure else replace(closed, closure=chosen, choice=choice)


def _problem(closed: ClosedModel) -> ClosureProblem:
    degree = NO_TRUNCATION if closed.degree is None else closed.degree
    return ClosureProblem(closed.model, closed.views, degree, closed.initial_law)


def _closure(value: str | Closure, options: dict[str, object]) -> Closure:
    return closure(value, **options)


def _initial_mean(model: AttentionModel, value: ArrayLike | None) -> FloatArray | None:
    if value is None:
        return None
    if model.centred:
        raise InputError("initial_mean is given but the forms of this model are centred; they have no mean")
    array = real_array(value, "initial_mean")
    count = model.loss.indices
    if array.shape != (count,):
        raise InputError(f"initial_mean = {value!r} must be {count} finite numbers, one an index")
    return array


__all__ = ["ClosedModel", "StateReading", "close", "read_states"]
