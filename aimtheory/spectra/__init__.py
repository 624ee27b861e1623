"""Spectral laws of random matrices and free probability: moments, free families, semicircle convolution, denoising."""

from aimtheory.spectra import law_records as law_records
from aimtheory.spectra.arbitrary_precision import mmse_digits, mutual_information_digits
from aimtheory.spectra.atomic import Atomic
from aimtheory.spectra.band_quadrature import BandQuadrature
from aimtheory.spectra.constant import Constant
from aimtheory.spectra.denoising import denoise, denoise_matrix, mmse, mutual_information
from aimtheory.spectra.dressed_spectrum import DressedSpectrum
from aimtheory.spectra.empirical import Empirical, extensive_rank_limit
from aimtheory.spectra.fock_family import FockFamily
from aimtheory.spectra.fock_space import FockLetter, FockOperators, fock_operators
from aimtheory.spectra.free_product import CompressedOperators, FreeFamily
from aimtheory.spectra.gaussian_factors import GaussianFactors, Ginibre
from aimtheory.spectra.gram_operators import GramOperators, gram_operators_of_matrices, gram_operators_of_moments
from aimtheory.spectra.initial_law import InitialLaw, MatrixLaw, law_types, plain
from aimtheory.spectra.joint_law import JointLaw
from aimtheory.spectra.joint_moments import JointMoments, check_realizable, gram_matrix
from aimtheory.spectra.law import JacobiCoefficients, SpectralLaw
from aimtheory.spectra.matrix_family import MatrixFamily
from aimtheory.spectra.rectangular_denoising import NoisySingularValues, denoise_rectangular, noisy_singular_values
from aimtheory.spectra.rectangular_law import RectangularFactors, RectangularGinibre, RectangularLaw
from aimtheory.spectra.scalars_beside import ScalarsBeside
from aimtheory.spectra.semicircle import GOE
from aimtheory.spectra.semicircle_convolution import SemicircleConvolution
from aimtheory.spectra.spectral_measure import SpectralMeasure, spectral_measure
from aimtheory.spectra.square_root import SquareRoot
from aimtheory.spectra.user_density import UserDensity
from aimtheory.spectra.wishart import GaussianEntries, Wishart, bayes_wishart

__all__ = [
    "GOE",
    "Atomic",
    "BandQuadrature",
    "CompressedOperators",
    "Constant",
    "DressedSpectrum",
    "Empirical",
    "FockFamily",
    "FockLetter",
    "FockOperators",
    "FreeFamily",
    "GaussianEntries",
    "GaussianFactors",
    "Ginibre",
    "GramOperators",
    "InitialLaw",
    "JacobiCoefficients",
    "JointLaw",
    "JointMoments",
    "MatrixFamily",
    "MatrixLaw",
    "NoisySingularValues",
    "RectangularFactors",
    "RectangularGinibre",
    "RectangularLaw",
    "ScalarsBeside",
    "SemicircleConvolution",
    "SpectralLaw",
    "SpectralMeasure",
    "SquareRoot",
    "UserDensity",
    "Wishart",
    "bayes_wishart",
    "check_realizable",
    "denoise",
    "denoise_matrix",
    "denoise_rectangular",
    "extensive_rank_limit",
    "fock_operators",
    "gram_matrix",
    "gram_operators_of_matrices",
    "gram_operators_of_moments",
    "law_types",
    "mmse",
    "mmse_digits",
    "mutual_information",
    "mutual_information_digits",
    "noisy_singular_values",
    "plain",
    "spectral_measure",
]
