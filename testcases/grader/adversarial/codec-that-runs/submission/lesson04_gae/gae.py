# coding: zip
x = 1
