"""Where no model is connected, a script of Hutch's own speaks and says so: that is no success."""

from hutch.domain.stand_in import BY_OPTION, is_stand_in, no_model_here, no_model_there

__all__ = ["NO_MODEL", "NO_MODEL_THERE", "is_stand_in"]

NO_MODEL = no_model_here()
NO_MODEL_THERE = no_model_there(BY_OPTION)
