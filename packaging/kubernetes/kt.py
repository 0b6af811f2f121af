"""The program for spark-submit: kt, with the arguments behind this file's name."""

from kafkatools.__main__ import main

main()
